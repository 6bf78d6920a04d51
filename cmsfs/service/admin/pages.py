"""The routes of the administrators' pages."""

from starlette import routing

from cmsfs.service.admin import (
    accounts,
    applications,
    automation,
    exemptions,
    overview,
    parties,
    people,
    policies,
    protections,
    reports,
    sharing,
    template_fields,
)
from cmsfs.service.admin.entrance import ENTRANCE, admitted, posted

AT = "/admin/at/{place}"

routes = [
    *ENTRANCE.routes,
    routing.Route(f"{AT}/logout", posted(ENTRANCE.log_out), methods=["POST"]),
    routing.Route(f"{AT}", admitted(overview.show), methods=["GET"]),
    routing.Route(f"{AT}/trash", admitted(overview.trash), methods=["GET"]),
    routing.Route(f"{AT}/events", admitted(overview.events), methods=["GET"]),
    routing.Route(AT + "/trash/{item}", posted(overview.change_trash, to="/trash"), methods=["POST"]),
    routing.Route(f"{AT}/retention", admitted(policies.retention), methods=["GET"]),
    routing.Route(f"{AT}/retention", posted(protections.make_policy, policies.retention), methods=["POST"]),
    routing.Route(AT + "/retention/{id}", admitted(protections.show_policy), methods=["GET"]),
    routing.Route(
        AT + "/retention/{id}",
        posted(protections.change_policy, protections.show_policy),
        methods=["POST"],
    ),
    routing.Route(AT + "/holds/{id}", admitted(protections.show_hold), methods=["GET"]),
    routing.Route(
        AT + "/holds/{id}", posted(protections.change_hold, protections.show_hold), methods=["POST"]
    ),
    routing.Route(
        AT + "/templates/{key}", posted(policies.change_template, to="/templates"), methods=["POST"]
    ),
    routing.Route(AT + "/templates/{key}/fields", admitted(template_fields.show), methods=["GET"]),
    routing.Route(
        AT + "/templates/{key}/fields",
        posted(template_fields.change, template_fields.show),
        methods=["POST"],
    ),
    routing.Route(f"{AT}/collaborations", admitted(sharing.collaborations), methods=["GET"]),
    routing.Route(
        AT + "/collaborations/{id}",
        posted(sharing.change_collaboration, to="/collaborations"),
        methods=["POST"],
    ),
    routing.Route(f"{AT}/links", admitted(sharing.links), methods=["GET"]),
    routing.Route(AT + "/links/{item}", posted(sharing.end_link, to="/links"), methods=["POST"]),
    routing.Route(AT + "/apps/{id}", posted(applications.change, to="/apps"), methods=["POST"]),
    routing.Route(f"{AT}/users", admitted(people.show), methods=["GET"]),
    routing.Route(f"{AT}/users", posted(people.create, people.show), methods=["POST"]),
    routing.Route(f"{AT}/users/leaving", posted(people.offboard, to="/users"), methods=["POST"]),
    routing.Route(AT + "/users/{id}", admitted(accounts.show), methods=["GET"]),
    routing.Route(AT + "/users/{id}", posted(accounts.change, accounts.show), methods=["POST"]),
    routing.Route(
        AT + "/users/{id}/search", posted(people.set_content_search, to="/users"), methods=["POST"]
    ),
    routing.Route(AT + "/users/{id}/password", posted(people.reset_password, to="/users"), methods=["POST"]),
    routing.Route(f"{AT}/groups", admitted(parties.show), methods=["GET"]),
    routing.Route(f"{AT}/groups", posted(parties.create, parties.show), methods=["POST"]),
    routing.Route(AT + "/groups/{id}", admitted(parties.show_group), methods=["GET"]),
    routing.Route(AT + "/groups/{id}", posted(parties.change, parties.show_group), methods=["POST"]),
    routing.Route(f"{AT}/apps", admitted(applications.show), methods=["GET"]),
    routing.Route(f"{AT}/apps", posted(applications.create, applications.show), methods=["POST"]),
    routing.Route(AT + "/apps/{id}/secret", posted(applications.renew_secret, to="/apps"), methods=["POST"]),
    routing.Route(
        AT + "/apps/{id}/signature", posted(applications.renew_signature_key, to="/apps"), methods=["POST"]
    ),
    routing.Route(f"{AT}/holds", admitted(policies.holds), methods=["GET"]),
    routing.Route(f"{AT}/holds", posted(policies.hold, policies.holds), methods=["POST"]),
    routing.Route(f"{AT}/templates", admitted(policies.templates), methods=["GET"]),
    routing.Route(f"{AT}/templates", posted(policies.template, policies.templates), methods=["POST"]),
    routing.Route(f"{AT}/exemptions", admitted(exemptions.show), methods=["GET"]),
    routing.Route(f"{AT}/exemptions", posted(exemptions.change, exemptions.show), methods=["POST"]),
    routing.Route(AT + "/reports/{report}", admitted(reports.send), methods=["GET"]),
    routing.Route(f"{AT}/webhooks", admitted(automation.webhooks), methods=["GET"]),
    routing.Route(AT + "/webhooks/{id}", posted(automation.end_webhook, to="/webhooks"), methods=["POST"]),
    routing.Route(f"{AT}/cascades", admitted(automation.cascades), methods=["GET"]),
    routing.Route(f"{AT}/cascades", posted(automation.cascade, automation.cascades), methods=["POST"]),
    routing.Route(AT + "/cascades/{id}", posted(automation.change_cascade, to="/cascades"), methods=["POST"]),
    *ENTRANCE.last_routes,
]
