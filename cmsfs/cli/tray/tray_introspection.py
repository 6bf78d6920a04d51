"""The D-Bus introspection data of the icon and its menu, which some panels request."""

_READ = '<property name="{}" type="{}" access="read"/>'


def _properties(**types: str) -> str:
    return "".join(_READ.format(name, kind) for name, kind in types.items())


def _method(name: str, given: str = "", answered: str = "") -> str:
    arguments = "".join(f'<arg type="{kind}" direction="in"/>' for kind in given.split())
    arguments += "".join(f'<arg type="{kind}" direction="out"/>' for kind in answered.split())
    return f'<method name="{name}">{arguments}</method>'


def _signal(name: str, told: str = "") -> str:
    arguments = "".join(f'<arg type="{kind}"/>' for kind in told.split())
    return f'<signal name="{name}">{arguments}</signal>'


_ITEM = (
    '<node><interface name="org.kde.StatusNotifierItem">'
    + _properties(Category="s", Id="s", Title="s", Status="s", WindowId="i", IconThemePath="s", IconName="s")
    + _properties(IconPixmap="a(iiay)", OverlayIconName="s", OverlayIconPixmap="a(iiay)")
    + _properties(AttentionIconName="s", AttentionIconPixmap="a(iiay)", AttentionMovieName="s")
    + _properties(ToolTip="(sa(iiay)ss)", ItemIsMenu="b", Menu="o")
    + "".join(_method(name, "i i") for name in ("Activate", "ContextMenu", "SecondaryActivate"))
    + _method("Scroll", "i s")
    + "".join(_signal(name) for name in ("NewTitle", "NewIcon", "NewAttentionIcon", "NewToolTip"))
    + _signal("NewStatus", "s")
    + "</interface></node>"
)
_MENU = (
    '<node><interface name="com.canonical.dbusmenu">'
    + _properties(Version="u", TextDirection="s", Status="s", IconThemePath="as")
    + _method("GetLayout", "i i as", "u (ia{sv}av)")
    + _method("GetGroupProperties", "ai as", "a(ia{sv})")
    + _method("GetProperty", "i s", "v")
    + _method("Event", "i s v u")
    + _method("EventGroup", "a(isvu)", "ai")
    + _method("AboutToShow", "i", "b")
    + _method("AboutToShowGroup", "ai", "ai ai")
    + _signal("ItemsPropertiesUpdated", "a(ia{sv}) a(ias)")
    + _signal("LayoutUpdated", "u i")
    + "</interface></node>"
)
XML = {"/StatusNotifierItem": _ITEM, "/MenuBar": _MENU}
