// One timeline on the page: its view, marks, search and selection.

const AROUND = 0.35; // of the length of an event or finding, shown before and after it
const REVEAL_MARGIN = 20; // pixels around marks that the page scrolls to

class Timeline extends TimelineDrawing {
  // Shows a part of the trace, in ns.
  show(view, quietly = false) {
    this.view = quietly ? view : clamped(view, this.whole); // a timeline that shares its view may end before it
    this.stage.tip.hidden = true;
    this.isLeading = !quietly;
    if (!quietly) this.onShow?.(this.view);
    return this.draw();
  }

  // Shows `factor` times as much time; the time at a place of the width (0 to 1) stays there.
  zoom(factor, place = 0.5) {
    const [from, to] = this.view;
    const [least, most] = this.whole;
    const span = Math.min(Math.max((to - from) * factor, SHORTEST_VIEW), most - least);
    const start = from + place * (to - from) - place * span;
    return this.show([start, start + span]);
  }

  // Moves by a share of the view's length.
  move(share) {
    const [from, to] = this.view;
    return this.show([from + (to - from) * share, to + (to - from) * share]);
  }

  showStep(step) {
    const { start, last } = this.data.steps;
    if (step >= 0 && step < start.length) this.show(widenedBy([start[step], last[step]], EDGE));
  }

  // The step from whose start the axis counts.
  get step() {
    return referenceStep(this.data, this.view);
  }

  // Puts the lanes of GPUs on top, where they stay in sight, or back.
  pinGpus() {
    this.isPinned = !this.isPinned;
    return this.draw();
  }

  // Hides or shows a kind.
  toggle(kind) {
    if (!this.hidden.delete(kind)) this.hidden.add(kind);
    this.rows.clear();
    this.version += 1;
    return this.draw();
  }

  hideKinds(kinds) {
    this.hidden = new Set(kinds);
    this.rows.clear();
    this.version += 1;
  }

  // Marks events [{ what, lanes, start, end }] and shows texts on them: lists of lines, or elements.
  mark(marks, link, words) {
    this.marks = marks;
    this.link = link;
    const chosen = this.root.querySelector(".chosen");
    chosen.hidden = !words?.length;
    chosen.replaceChildren(...(words ?? []).map((one) => (one instanceof Node ? one : asParagraphs(one))));
    if (words?.length) chosen.append(closeButton("close", () => this.unmark()));
    return this.draw().then(() => words?.length && this.reveal(marks));
  }

  // Marks a cell and its launch or awaited work, and shows their details.
  choose(cell) {
    const { lane, first } = cell;
    const chosen = { what: cell.count > 1 ? "block" : "chosen", lanes: [lane], start: cell.start, end: cell.end };
    this.chosen = { lane, at: first };
    const column = cell.count === 1 ? Object.keys(LINKED).find((name) => lane[name]) : undefined;
    const other = column && linked(this.data, lane[column][first]);
    if (!other) return this.mark([chosen], undefined, [detailsOf(this, cell)]);
    this.folded.delete(other.lane.group);
    const linkedMark = { what: LINKED[column], lanes: [other.lane] };
    [linkedMark.start, linkedMark.end] = [other.lane.start[other.first], other.lane.end[other.first]];
    const link = lane.launch ? { from: other, to: cell } : undefined;
    const details = detailsOf(this, cellOfEvent(other.lane, other.first), LINKED[column]);
    return this.mark([chosen, linkedMark], link, [detailsOf(this, cell), details]);
  }

  // Scrolls the page so that neither the axis nor the details hide the marks, at least not the first. Marks on pinned
  // lanes, which stay in sight, leave the room to the others.
  reveal(marks) {
    const { tops, pinned } = this.placed;
    const all = marks.map(({ lanes }) => reachOf(tops, lanes)).filter(Boolean);
    const others = all.filter(([, bottom]) => bottom > pinned + REVEAL_MARGIN || pinned > MOST_PINNED * window.innerHeight);
    const reaches = others.length ? others : all;
    if (!reaches.length) return;
    const { top } = this.stage.body.getBoundingClientRect();
    const above = this.stage.head.getBoundingClientRect().bottom + (others.length ? pinned : 0) + REVEAL_MARGIN;
    const below = this.root.querySelector(".drawer").getBoundingClientRect().top - REVEAL_MARGIN;
    const isTogether = Math.max(...reaches.flat()) - Math.min(...reaches.flat()) < below - above;
    const [first, last] = isTogether ? [Math.min(...reaches.flat()), Math.max(...reaches.flat())] : reaches[0];
    if (top + last > below) scrollBy(0, top + last - below);
    else if (top + first < above) scrollBy(0, top + first - above);
  }

  unmark() {
    this.chosen = undefined;
    return this.mark([], undefined);
  }

  // Goes to an event and shows its details; the view stays if the event is in it and wide enough to see.
  goTo(lane, at) {
    this.folded.delete(lane.group);
    const [from, to] = this.view;
    const length = lane.end[at] - lane.start[at];
    const isSeen = lane.start[at] >= from && lane.end[at] <= to && length * 50 > to - from;
    if (!isSeen) {
      const half = Math.max(length * 5, 5000);
      const middle = (lane.start[at] + lane.end[at]) / 2;
      this.show([middle - half, middle + half]);
    }
    return this.choose(cellOfEvent(lane, at));
  }

  // Zooms to the worst instance of a finding or the longest event of a row, and marks it with its launch or the awaited work.
  showInstance([source, start, end]) {
    const device = /^device (-?\d+)$/.exec(source);
    const event = device ? undefined : (eventAt(this.data, source, start, end) ?? blockAt(this.data, source, start));
    if (event) {
      this.folded.delete(event.lane.group);
      this.choose(cellOfEvent(event.lane, event.first));
    } else if (!device) {
      this.unmark();
    } else {
      const group = this.data.lanes.find((lane) => lane.device === Number(device[1]))?.group;
      this.folded.delete(group);
      this.mark([{ what: "GPU idle", isIdle: true, lanes: this.data.lanes.filter((lane) => lane.group === group), start, end }]);
    }
    const times = this.marks.flatMap((mark) => [mark.start, mark.end]);
    return this.show(widenedBy([Math.min(start, ...times), Math.max(end, ...times)], AROUND));
  }

  search(text) {
    return this.finder.search(text);
  }

  // Fades all but some events and goes to the first of them. They are [{ lane, at }], where `lane` is a lane or its
  // number, or a test of (lane, at).
  async showEvents(which) {
    this.root.querySelector(".find").value = "";
    await this.finder.light(typeof which === "function" ? which : isListed(this.data, which));
    return this.finder.next(0);
  }

  nextMatch(by) {
    return this.finder.next(undefined, by);
  }

  clear() {
    this.unmark();
    this.select(undefined);
    const find = this.root.querySelector(".find");
    if (find.value) {
      find.value = "";
      find.dispatchEvent(new Event("input", { bubbles: true })); // tables follow the search
    }
    return this.search("");
  }

  // Selects a time in some lanes and shows their sums; undefined ends the selection.
  select(selection) {
    return this.selectIn([[this, selection]]);
  }

  // Selects in several timelines that share the view: [[timeline, selection]]; this one shows the sums of all.
  selectIn(selections) {
    const selectionOf = new Map(selections);
    for (const timeline of new Set([this, ...drawnWith(this)])) {
      timeline.selection = selectionOf.get(timeline);
      timeline.draw();
      if (timeline !== this) showSums(timeline, []);
    }
    showSums(this);
    return this.draw();
  }
}

const asParagraphs = ([heading, ...lines]) => {
  const item = newElement("div", "");
  item.append(newElement("strong", "", heading), ...lines.map((line) => newElement("div", "", line)));
  return item;
};
