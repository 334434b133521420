"""The clocks against the definition: a copy is known to have ended if a chain of orders leads from it to the host."""

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pinprof.races.clocks import Stream, Ticket, VectorClocks

A, B, C = Stream(0, 0), Stream(0, 7), Stream(1, 0)
STREAMS = (A, B, C)
EVENTS = ("e", "f")


def test_default_streams_of_two_devices_are_two() -> None:
    clocks = VectorClocks()
    here, there = clocks.submit(A), clocks.submit(C)
    clocks.host_learns(clocks.ended_after_device(0))
    assert (clocks.is_over(here), clocks.is_over(there)) == (True, False)
    assert clocks.devices() == {0, 1}


@dataclass
class Graph:
    """The definition: work is a node, and an order between two works is an edge."""

    before: list[set[int]] = field(default_factory=list)
    """For each node those that come just before it."""
    last: dict[Stream, set[int]] = field(default_factory=dict)
    recorded: dict[str, set[int]] = field(default_factory=dict)
    known: set[int] = field(default_factory=set)
    copies: dict[int, Ticket] = field(default_factory=dict)

    def node(self, stream: Stream) -> int:
        self.before.append(self.last.get(stream, set()))
        self.last[stream] = {len(self.before) - 1}
        return len(self.before) - 1

    def all_before(self, nodes: set[int]) -> set[int]:
        reached, todo = set(), list(nodes)
        while todo:
            node = todo.pop()
            if node not in reached:
                reached.add(node)
                todo += self.before[node]
        return reached


streams, events = st.sampled_from(STREAMS), st.sampled_from(EVENTS)
steps = st.one_of(
    st.tuples(st.just("copy"), streams),
    st.tuples(st.just("record"), events, streams),
    st.tuples(st.just("wait"), streams, events),
    st.tuples(st.just("host stream"), streams),
    st.tuples(st.just("host event"), events),
    st.tuples(st.just("host device"), st.sampled_from((0, 1))),
)


@given(st.lists(steps, max_size=40))
def test_any_program_is_ordered_as_the_graph_of_its_work_says(program: list[tuple[Any, ...]]) -> None:
    clocks, graph = VectorClocks(), Graph()
    for step in program:
        run(step, clocks, graph)
        over = graph.all_before(graph.known)
        for node, ticket in graph.copies.items():
            assert clocks.is_over(ticket) == (node in over)


def run(step: tuple[Any, ...], clocks: VectorClocks, graph: Graph) -> None:
    kind, first, *rest = step
    if kind == "copy":
        graph.copies[graph.node(first)] = clocks.submit(first)
    elif kind == "record":
        clocks.record(first, rest[0])
        graph.recorded[first] = {graph.node(rest[0])}
    elif kind == "wait":
        clocks.wait(first, rest[0])
        waiting = graph.node(first)
        graph.before[waiting] = graph.before[waiting] | graph.recorded.get(rest[0], set())
    elif kind == "host stream":
        clocks.host_learns(clocks.ended_after(first))
        graph.known |= graph.last.get(first, set())
    elif kind == "host event":
        clocks.host_learns(clocks.ended_after_event(first))
        graph.known |= graph.recorded.get(first, set())
    else:
        clocks.host_learns(clocks.ended_after_device(first))
        for stream, last in graph.last.items():
            if stream.device == first:
                graph.known |= last
