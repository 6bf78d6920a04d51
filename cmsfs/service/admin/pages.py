"""The routes of the administrators' pages."""

from starlette import routing

from cmsfs.service.admin import (
    applications,
    automation,
    event_log,
    exemptions,
    overview,
    policies,
    protections,
    reports,
    sharing,
    template_fields,
)
from cmsfs.service.admin.entrance import ENTRANCE, admitted, posted
from cmsfs.service.admin.people import accounts, groups, invitations, terms, users

AT = "/admin/at/{place}"

routes = [
    *ENTRANCE.routes,
    routing.Route(f"{AT}/logout", posted(ENTRANCE.log_out), methods=["POST"]),
    routing.Route(f"{AT}", admitted(overview.show), methods=["GET"]),
    routing.Route(f"{AT}/trash", admitted(overview.trash), methods=["GET"]),
    routing.Route(f"{AT}/events", admitted(event_log.show), methods=["GET"]),
    routing.Route(AT + "/trash/{item}", posted(overview.change_trash, to="/trash"), methods=["POST"]),
    routing.Route(f"{AT}/retention", admitted(policies.retention), methods=["GET"]),
    routing.Route(f"{AT}/retention", posted(protections.make_policy, policies.retention), methods=["POST"]),
    routing.Route(AT + "/retention/{id}", admitted(protections.show_policy), methods=["GET"]),
    routing.Route(
        AT + "/retention/{id}",
        posted(protections.change_policy, protections.show_policy),
        methods=["POST"],
    ),
    routing.Route(AT + "/retention/{id}/versions", admitted(protections.show_retained), methods=["GET"]),
    routing.Route(AT + "/holds/{id}/versions", admitted(protections.show_held), methods=["GET"]),
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
    routing.Route(f"{AT}/collaborations", posted(sharing.share, sharing.collaborations), methods=["POST"]),
    routing.Route(
        AT + "/collaborations/{id}",
        posted(sharing.change_collaboration, to="/collaborations"),
        methods=["POST"],
    ),
    routing.Route(f"{AT}/links", admitted(sharing.links), methods=["GET"]),
    routing.Route(AT + "/links/{item}", posted(sharing.end_link, to="/links"), methods=["POST"]),
    routing.Route(AT + "/apps/{id}", posted(applications.change, to="/apps"), methods=["POST"]),
    routing.Route(f"{AT}/users", admitted(users.show), methods=["GET"]),
    routing.Route(f"{AT}/users", posted(users.create, users.show), methods=["POST"]),
    routing.Route(f"{AT}/users/leaving", posted(users.offboard, to="/users"), methods=["POST"]),
    routing.Route(AT + "/users/{id}", admitted(accounts.show), methods=["GET"]),
    routing.Route(AT + "/users/{id}", posted(accounts.change, accounts.show), methods=["POST"]),
    routing.Route(AT + "/users/{id}/search", posted(users.set_content_search, to="/users"), methods=["POST"]),
    routing.Route(AT + "/users/{id}/password", posted(users.reset_password, to="/users"), methods=["POST"]),
    routing.Route(f"{AT}/groups", admitted(groups.show), methods=["GET"]),
    routing.Route(f"{AT}/groups", posted(groups.create, groups.show), methods=["POST"]),
    routing.Route(AT + "/groups/{id}", admitted(groups.show_group), methods=["GET"]),
    routing.Route(AT + "/groups/{id}", posted(groups.change, groups.show_group), methods=["POST"]),
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
    routing.Route(f"{AT}/webhooks", posted(automation.create_webhook, automation.webhooks), methods=["POST"]),
    routing.Route(AT + "/webhooks/{id}", posted(automation.change_webhook, to="/webhooks"), methods=["POST"]),
    routing.Route(f"{AT}/terms", admitted(terms.show), methods=["GET"]),
    routing.Route(f"{AT}/terms", posted(terms.change, terms.show), methods=["POST"]),
    routing.Route(f"{AT}/invitations", admitted(invitations.show), methods=["GET"]),
    routing.Route(f"{AT}/invitations", posted(invitations.invite, invitations.show), methods=["POST"]),
    routing.Route(f"{AT}/cascades", admitted(automation.cascades), methods=["GET"]),
    routing.Route(f"{AT}/cascades", posted(automation.cascade, automation.cascades), methods=["POST"]),
    routing.Route(AT + "/cascades/{id}", posted(automation.change_cascade, to="/cascades"), methods=["POST"]),
    *ENTRANCE.last_routes,
]
