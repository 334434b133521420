// The keys of the timelines, which work on the whole page unless somebody writes.

const HELP = [
  ["W S, + −, Ctrl + wheel", "zoom, at the pointer if it is over the timeline"],
  ["A D, ← →, Shift + wheel", "move"],
  ["drag", "moves; with Shift, or the other tool, selects a time in some lanes for its sums"],
  ["wheel", "zooms once you have clicked the timeline; before that it scrolls the page"],
  ["click", "shows the details of an event; a double click zooms to it, as F does"],
  [", and .", "the event before and after the chosen one in its lane"],
  ["[ and ]", "the launch of the chosen GPU work; the work that a call or an op launches, or a wait waits for"],
  ["Shift + ↑ ↓", "the event in the lane above and below, at the same time; if none is chosen, the first one shown"],
  ["PageUp PageDown", "the step before and after"],
  ["0, Home", "all of the recording"],
  ["Tab to the strip", "Home, End and Page keys move the window in the recording; Shift + ← → makes it shorter and longer"],
  ["Alt + ← →", "back and forward through the views you have looked at"],
  ["/ and Enter", "search, and go to the next match; with Shift to the one before"],
  ["M", "sets a flag at the pointer, or at the chosen event if the pointer is elsewhere; removes the flag at the pointer"],
  ["Esc", "clears marks, selection and search"],
  ["?", "these keys"],
];

const showKeys = () => {
  const old = document.querySelector("dialog.help");
  if (old) {
    old.showModal();
    return;
  }
  const dialog = newElement("dialog", "help");
  dialog.setAttribute("aria-label", "Keys of the timeline");
  const list = newElement("dl", "");
  for (const [keys, what] of HELP) list.append(newElement("dt", "", keys), newElement("dd", "", what));
  const close = newButton("close", () => dialog.close());
  dialog.append(newElement("h3", "", "The timeline with keys, mouse and fingers"), list, close);
  document.body.append(dialog);
  dialog.showModal();
};

const FLAG = 6; // pixels to each side of a flag that belong to it

const WHILE_HELD = {
  "+": ["zoom", -1],
  "=": ["zoom", -1],
  "-": ["zoom", 1],
  _: ["zoom", 1],
  w: ["zoom", -1],
  s: ["zoom", 1],
  a: ["move", -1],
  d: ["move", 1],
  ArrowLeft: ["move", -1],
  ArrowRight: ["move", 1],
};

const goToNeighbour = (timeline, by) => {
  const { lane, at } = timeline.chosen ?? {};
  if (lane && at + by >= 0 && at + by < lane.size) timeline.goTo(lane, at + by);
};

// The place of the event of a lane that is nearest to a time.
const nearestEvent = (lane, start) => {
  const at = Math.min(firstAbove(lane.end, start), lane.size - 1);
  return at > 0 && lane.start[at] > start && lane.start[at] - start > start - lane.end[at - 1] ? at - 1 : at;
};

const goAcross = (timeline, by) => {
  const lanes = [...timeline.placed.tops.keys()];
  const { lane, at } = timeline.chosen ?? {};
  const next = lane ? lanes[lanes.indexOf(lane) + by] : lanes[0];
  if (next) timeline.goTo(next, nearestEvent(next, lane ? lane.start[at] : timeline.view[0]));
};

// Goes from the chosen event to the first event with one of these relations.
const follow = (timeline, ...relations) => {
  const { lane, at } = timeline.chosen ?? {};
  const relation = lane && relationsOf(timeline.data, lane, at).find(({ what }) => relations.includes(what));
  if (relation) timeline.goTo(relation.events[0].lane, relation.events[0].at);
};

const zoomToChosen = (timeline) => {
  const { lane, at } = timeline.chosen ?? {};
  const { from, to } = timeline.selection ?? {};
  if (lane) timeline.show(widenedBy([lane.start[at], lane.end[at]], AROUND));
  else if (to > from) timeline.show([from, to]);
};

// Sets a flag at the pointer, or at the chosen event; removes the flag that is there.
const toggleFlag = (timeline) => {
  const { view, width, chosen, pointed, flags } = timeline;
  const [from, to] = view;
  const time = pointed === undefined ? chosen?.lane?.start[chosen.at] : from + pointed * (to - from);
  if (time === undefined) return;
  const near = flags.find((other) => Math.abs(other - time) * width < FLAG * (to - from));
  timeline.flags = near === undefined ? [...flags, time].sort((one, other) => one - other) : flags.filter((other) => other !== near);
  timeline.draw();
};

const ON_PRESS = {
  m: toggleFlag,
  f: zoomToChosen,
  "Shift+ArrowUp": (timeline) => goAcross(timeline, -1),
  "Shift+ArrowDown": (timeline) => goAcross(timeline, 1),
  ",": (timeline) => goToNeighbour(timeline, -1),
  ".": (timeline) => goToNeighbour(timeline, 1),
  "[": (timeline) => follow(timeline, "launched by", "is the call"),
  "]": (timeline) => follow(timeline, "launches", "waits for", "is a wait"),
  0: showAll,
  Home: showAll,
  PageUp: (timeline) => timeline.showStep(timeline.step - 1),
  PageDown: (timeline) => timeline.showStep(timeline.step + 1),
  "/": focusSearch,
  Escape: clearAll,
};
const SCROLLS_PAGE = new Set(["PageUp", "PageDown"]); // unless a timeline has the focus
const NEEDS_TIMELINE_IN_SIGHT = new Set(["Home", "ArrowLeft", "ArrowRight", "Escape"]);

const isWriting = (element) => element?.closest?.("input, select, textarea, [contenteditable], dialog") != null;

// Whether an element that has the focus uses a key for itself.
const isTaken = (element, key) => element?.closest?.("pre, .scroll, .table") != null && key.startsWith("Arrow");

const onAlt = (timeline, event) => {
  const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (by && timeline.history.go(by)) event.preventDefault();
};

// The name of a key, with letters in lower case.
const nameOfKey = ({ key, shiftKey }) => {
  if (shiftKey && (key === "ArrowUp" || key === "ArrowDown")) return `Shift+${key}`;
  return key.length === 1 ? key.toLowerCase() : key;
};

// Handles a key; returns whether it was for the timeline.
const press = (timeline, event) => {
  const key = nameOfKey(event);
  if (WHILE_HELD[key]) timeline.motion.press(event.code, ...WHILE_HELD[key]);
  else if (ON_PRESS[key]) ON_PRESS[key](timeline);
  else return false;
  event.preventDefault();
  return true;
};

// The motion of the view while a key is held, and the history of views.

const ZOOM = 1.6; // by one press of a key
const SHIFT = 0.2; // of the view, by one press of a key
const PRESS = 130; // ms of the motion of one press; a held key goes on at the same speed
const LIKE = 0.001; // of a view's length; views that differ by less are the same

const movesLess = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

class Motion {
  constructor(timeline) {
    this.timeline = timeline;
    this.owed = new Map(); // by "zoom" or "move": the part of a press that is still to be done, signed
    this.held = new Map(); // by the place of the key, as "+" may come up as "=": [what, direction]
    this.last = undefined;
  }

  // A key goes down or repeats: the view moves by at least one press.
  press(key, what, direction) {
    if (movesLess()) {
      this.apply(what, direction);
      return;
    }
    if (this.held.has(key)) return;
    this.held.set(key, [what, direction]);
    const left = this.owed.get(what) ?? 0;
    this.owed.set(what, left * direction > 0 ? left + direction : direction);
    if (this.last === undefined) {
      this.last = performance.now();
      requestAnimationFrame((time) => this.frame(time));
    }
  }

  release(key) {
    this.held.delete(key);
  }

  releaseAll() {
    this.held.clear();
  }

  apply(what, presses) {
    if (what === "zoom") this.timeline.zoom(ZOOM ** presses, this.timeline.pointed ?? 0.5);
    else this.timeline.move(SHIFT * presses);
  }

  frame(time) {
    const share = Math.min(Math.max(time - this.last, 0), 100) / PRESS;
    this.last = time;
    const going = new Map([...this.held.values()].map(([what, direction]) => [what, direction * share]));
    for (const [what, left] of this.owed) {
      const part = Math.sign(left) * Math.min(share * Math.max(Math.abs(left), 1), Math.abs(left));
      if (!going.has(what) || Math.abs(part) > share) going.set(what, part);
      if (part === left) this.owed.delete(what);
      else this.owed.set(what, left - part);
    }
    for (const [what, presses] of going) if (presses) this.apply(what, presses);
    if (this.held.size || this.owed.size) requestAnimationFrame((next) => this.frame(next));
    else this.last = undefined;
  }
}

const isLike = (one, other) => {
  const least = LIKE * Math.min(one[1] - one[0], other[1] - other[0]);
  return Math.abs(one[0] - other[0]) < least && Math.abs(one[1] - other[1]) < least;
};

// The views at which somebody has rested, to go back to.
class ViewHistory {
  constructor(timeline) {
    this.timeline = timeline;
    this.views = [timeline.view];
    this.place = 0;
    timeline.settled.push(() => this.note());
  }

  note() {
    const { view } = this.timeline;
    if (!isLike(view, this.views[this.place])) {
      this.views.splice(this.place + 1, Infinity, view);
      this.place += 1;
    }
    this.enableButtons();
  }

  go(by) {
    const place = this.place + by;
    if (place < 0 || place >= this.views.length) return false;
    this.place = place;
    this.timeline.show(this.views[place]);
    this.enableButtons();
    return true;
  }

  enableButtons() {
    const { root } = this.timeline;
    root.querySelector(".back").disabled = this.place === 0;
    root.querySelector(".forward").disabled = this.place === this.views.length - 1;
  }
}
