"""An import contract that lists the arrows between the packages of a package.

In `pyproject.toml`, `allowed` has a line for each package: `"push -> core, fetch"`.  An arrow that is not
listed breaks the contract, and so does one that is listed and that no import needs any more.  Modules that
lie in the container itself are left to the contract on circles (`acyclic_siblings`), and so are circles.
"""

from collections import defaultdict
from typing import cast

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


class ArrowsContract(Contract):
    """Options: `container`, and `allowed`."""

    type_name = "arrows"

    container = fields.StringField()
    allowed = fields.ListField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        found = self._found(graph)
        allowed = self._allowed()
        problems = [
            f"{self.container}: {source} imports {target}: {imports}"
            for (source, target), imports in sorted(found.items())
            if target not in allowed.get(source, ())
        ]
        problems += [
            f"{self.container}: nothing in {source} imports {target}; take it off the list"
            for source, targets in allowed.items()
            for target in targets
            if (source, target) not in found
        ]
        return ContractCheck(kept=not problems, metadata={"problems": problems})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for problem in check.metadata["problems"]:
            output.print_error(problem)

    def _found(self, graph: ImportGraph) -> dict[tuple[str, str], list[str]]:
        """The arrows that imports make, and which imports those are."""
        found = defaultdict(list)
        for module in graph.modules:
            source = self._package(module, graph)
            if source is None:
                continue
            for imported in graph.find_modules_directly_imported_by(module):
                target = self._package(imported, graph)
                if target is not None and target not in (source, "(top)"):
                    found[source, target].append(f"{module} -> {imported}")
        return {arrow: sorted(imports) for arrow, imports in found.items() if arrow[0] != "(top)"}

    def _package(self, module: str, graph: ImportGraph) -> str | None:
        """The package directly below the container that a module is in; None: it is elsewhere."""
        head = f"{self.container}."
        if not module.startswith(head):
            return None
        first, _, rest = module.removeprefix(head).partition(".")
        return first if rest or graph.find_children(head + first) else "(top)"

    def _allowed(self) -> dict[str, list[str]]:
        allowed = {}
        for line in cast(list[str], self.allowed):
            source, _, targets = line.partition("->")
            allowed[source.strip()] = [target.strip() for target in targets.split(",")]
        return allowed
