"""A patch with its certificate as a text that `git apply` takes: all but the diffs stands in lines with a #."""

from collections.abc import Iterator

from pinprof.report.fix.text import folded, lines_of_change, not_changed, on_one_line
from pinprof.report.trial.words import lines, of_share, sentence
from pinprof.trial.certificate import Certificate


def to_text(certificate: Certificate) -> bytes:
    """Return the patch, why the rest is not changed, the certificate, and the verdict in the last line.

    The diffs of a patch that is not proven stand behind a # too, so that nobody applies them by a pipe.
    """
    is_proven = certificate.verdict == "take_it"
    return b"".join(
        (*_patch(certificate, is_proven=is_proven), not_changed(certificate.patches), _certificate(certificate))
    )


def to_patch(certificate: Certificate) -> bytes:
    """Return the patch alone with its certificate, proven or not, for a file."""
    return b"".join((*_patch(certificate, is_proven=True), _certificate(certificate)))


def _patch(certificate: Certificate, *, is_proven: bool) -> Iterator[bytes]:
    step_ns = certificate.analysis.profile.step_ns
    of = {id(share.mend): share for share in certificate.shares}
    for patch in certificate.patches.patches:
        about = list(lines_of_change(patch.mend, step_ns))
        share = of.get(id(patch.mend))
        if share is not None and len(of) > 1:
            about += folded(of_share(share), "  ")
        yield ("\n".join(about) + "\n").encode()
        yield (patch.diff if is_proven else _commented(patch.diff)) + b"\n"
    left_out = [share for share in certificate.shares if not share.is_kept]
    if left_out:
        yield b"# Left out:\n"
        for share in left_out:
            yield ("\n".join(folded(f"{share.mend.rule.id} {share.mend.what}: {of_share(share)}")) + "\n").encode()


def _commented(diff: bytes) -> bytes:
    return b"".join(b"# | " + line + b"\n" for line in diff.removesuffix(b"\n").split(b"\n"))


def _certificate(certificate: Certificate) -> bytes:
    made = [*(line for each in lines(certificate) for line in folded(each, "  "))]
    head = ["", "# Certificate:", *made, f"#   took {certificate.seconds:.0f} s"] if made else [""]
    return ("\n".join([*head, f"# {on_one_line(sentence(certificate))}"]) + "\n").encode()
