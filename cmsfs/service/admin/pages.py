"""The addresses of the administrators' pages."""

from starlette import routing

from cmsfs.service.admin import applications, entrance, overview, people, policies
from cmsfs.service.admin.entrance import admitted, posted

routes = [
    *entrance.routes,
    routing.Route("/admin", admitted(overview.show), methods=["GET"]),
    routing.Route("/admin/trash", admitted(overview.trash), methods=["GET"]),
    routing.Route("/admin/events", admitted(overview.events), methods=["GET"]),
    routing.Route("/admin/retention", admitted(policies.retention), methods=["GET"]),
    routing.Route("/admin/users", admitted(people.show), methods=["GET"]),
    routing.Route("/admin/users", posted(people.create, people.show), methods=["POST"]),
    routing.Route("/admin/users/{id}/search", posted(people.let_search, to="/admin/users"), methods=["POST"]),
    routing.Route("/admin/users/{id}/password", posted(people.renew, to="/admin/users"), methods=["POST"]),
    routing.Route("/admin/apps", admitted(applications.show), methods=["GET"]),
    routing.Route("/admin/apps", posted(applications.create, applications.show), methods=["POST"]),
    routing.Route("/admin/apps/{id}/secret", posted(applications.renew, to="/admin/apps"), methods=["POST"]),
    routing.Route("/admin/holds", admitted(policies.holds), methods=["GET"]),
    routing.Route("/admin/holds", posted(policies.hold, policies.holds), methods=["POST"]),
    routing.Route("/admin/templates", admitted(policies.templates), methods=["GET"]),
    routing.Route("/admin/templates", posted(policies.template, policies.templates), methods=["POST"]),
]
