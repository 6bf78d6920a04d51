"""Device pinners: devices that an enterprise allows by name.  Not supported: the list is always empty."""

from starlette import responses

from cmsfs.models.enterprise import device_pinners
from cmsfs.service import problems
from cmsfs.service.access import calls
from cmsfs.service.api import marker_pagination, operations
from cmsfs.service.api.operations import Operation


async def list_of_enterprise(call: calls.Call) -> responses.Response:
    calls.require_admin(call.caller)
    if call.id != str(call.caller.enterprise):
        raise problems.not_found("enterprise", call.id)
    params = call.request.query_params
    limit = marker_pagination.read_limit(params)
    marker_pagination.read_marker(params)
    direction = params.get("direction", "ASC").lower()
    if direction not in ("asc", "desc"):
        raise problems.invalid("direction", "must be ASC or DESC")
    order = [{"by": "id", "direction": direction}]
    return calls.answer({"entries": [], "limit": limit, "next_marker": None, "order": order})


async def refuse(call: calls.Call) -> responses.Response:
    """Raise 404: there are no device pinners."""
    calls.require_admin(call.caller)
    raise problems.not_found("device_pinner", call.id)


routes = [
    Operation(
        "GET /enterprises/{id}/device_pinners",
        list_of_enterprise,
        "List the pinned devices of an enterprise",
        device_pinners.DevicePinners,
        query=[*operations.MARKED, operations.DIRECTION],
        more="There are none.",
    ),
    Operation("GET /device_pinners/{id}", refuse, "Get a pinned device", device_pinners.DevicePinner),
    Operation("DELETE /device_pinners/{id}", refuse, "Let a device go", status=204),
]
