"""Allow TF32 for products of float32, which changes numbers."""

from collections.abc import Iterator

import libcst as cst

from pinprof.fix.core.facts import Work
from pinprof.fix.core.fix import Fix, PlannedOutcome, change_of
from pinprof.fix.core.rewrite import NotSafe, Refusal, RefusedPlace, Rewrite
from pinprof.fix.core.source import SourceFile
from pinprof.rules.rule import Finding

NO_FILE = "the trace does not show in which file of the program to allow it; record the program with pinprof run"
SETTER = "torch.set_float32_matmul_precision"


class Tf32(Fix):
    """Allows TF32 for products of float32, in the file that makes an optimizer or else a DataLoader."""

    rules = ("PIN701",)
    what = "TF32"
    safe_if = ""
    guide = (("with `--changes-numbers`: TF32", "different"),)
    INVALID = (
        """
        import torch

        opt = torch.optim.Adam(p)  #! optimizer
        f()  #? PIN701
        # becomes
        import torch
        torch.set_float32_matmul_precision("high")  # TF32 for matrix products

        opt = torch.optim.Adam(p)
        f()
        """,
    )
    VALID = (
        """
        import torch
        torch.set_float32_matmul_precision(args.p)
        opt = torch.optim.Adam(p)  #! optimizer
        f()  #? PIN701
        # stays: the program sets the precision of float32 itself
        """,
    )

    def changes(self, finding: Finding, work: Work) -> Iterator[PlannedOutcome]:
        """Yield the change of the file that makes an optimizer or a DataLoader, or why there is none."""
        made = work.facts.made
        places = [optimizer.place for optimizer in made.optimizers if optimizer.direct] if made else []
        places += [loader.place for loader in made.loaders if loader.direct] if made else []
        if not places:
            yield RefusedPlace(finding.rule, finding.evidence.place, NO_FILE)
            return
        try:
            rewrites = _with_tf32(work.files.at(places[0]))
        except Refusal as reason:
            yield RefusedPlace(finding.rule, places[0], str(reason))
            return
        safe_if = finding.rule.safe_if
        yield change_of(finding, self.what, rewrites, finding.sites, "different", safe_if, waits=(), part=True)


def _with_tf32(source: SourceFile) -> list[Rewrite]:
    """Return the rewrite that turns TF32 on behind the imports of a file. Raises Refusal."""
    if source.mentions(("allow_tf32", "fp32_precision", SETTER.rpartition(".")[2])):
        raise NotSafe("the program sets the precision of float32 itself, in a way that the source does not show")
    last, torch = _last_import(source)
    if last is None or not torch:
        raise NotSafe("the file does not import torch by its name at its beginning")
    line = cst.parse_statement(f'{SETTER}("high")  # TF32 for matrix products', config=source.module.config_for_parsing)

    def insert(node: cst.CSTNode) -> "cst.FlattenSentinel[cst.BaseStatement]":
        return cst.FlattenSentinel([cst.ensure_type(node, cst.SimpleStatementLine), line])

    return [source.rewrite(last, "TF32", insert)]


def _last_import(source: SourceFile) -> tuple[cst.SimpleStatementLine | None, bool]:
    """Return the last import of those at the beginning of a file, and whether they import torch."""
    last, torch = None, False
    for number, statement in enumerate(source.module.body):
        if not isinstance(statement, cst.SimpleStatementLine):
            break
        is_text = number == 0 and isinstance(statement.body[0], cst.Expr)
        if not is_text and not all(isinstance(line, cst.Import | cst.ImportFrom) for line in statement.body):
            break
        for line in statement.body:
            if isinstance(line, cst.Import):
                torch = torch or any(name.evaluated_name == "torch" and not name.asname for name in line.names)
        if not is_text:
            last = statement
    return last, torch
