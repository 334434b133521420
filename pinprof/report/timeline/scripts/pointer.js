// Steers a timeline with mouse, pen, fingers and wheel.

const STILL = 4; // pixels; a pointer that moves less between down and up clicks
const NOTCH = 50; // pixels; a wheel scrolls more at once, a trackpad less
const BY_WHEEL = 0.002; // of the logarithm of the view's length, per pixel
const BY_TRACKPAD = 0.01;
const LINE = 16; // pixels of a line, for browsers that scroll by lines
const PAUSE = 250; // ms; turns of a wheel with less between them are one

let scrolledAt = -Infinity; // when the page was scrolled with the wheel
document.addEventListener("wheel", (event) => {
  if (!event.defaultPrevented) scrolledAt = event.timeStamp;
}, { passive: true });

// Shows the place of the pointer in all timelines that share the view.
const pointIn = (timeline, place) => {
  for (const shown of new Set([timeline, ...seenWith(timeline)])) {
    shown.pointed = place;
    shown.writePointed();
  }
};

const showTip = (timeline, event) => {
  const { tip, body } = timeline.stage;
  const { place } = timeline.placeOf(event);
  pointIn(timeline, place >= 0 && place <= 1 ? place : undefined);
  const cell = event.buttons ? undefined : timeline.at(event);
  tip.hidden = !cell;
  timeline.plot.classList.toggle("pointed", cell !== undefined);
  if (!cell) return;
  const [heading, ...lines] = textOfEvent(timeline.data, cell);
  tip.replaceChildren(newElement("strong", "", heading), ...lines.map((line) => newElement("div", "", line)));
  const box = body.getBoundingClientRect();
  const left = event.clientX - box.left;
  const onRight = left < box.width / 2;
  const room = onRight ? box.width - left : left;
  tip.style.maxWidth = `${Math.max(room - 16, Math.min(box.width, 300))}px`;
  const start = onRight ? left + 12 : left - 12 - tip.offsetWidth;
  tip.style.left = `${Math.max(0, Math.min(start, box.width - tip.offsetWidth))}px`;
  const isLow = event.clientY + 24 + tip.offsetHeight > window.innerHeight && event.clientY > tip.offsetHeight + 24;
  tip.style.top = `${event.clientY - box.top + (isLow ? -12 - tip.offsetHeight : 16)}px`;
};

const hideTip = (timeline) => {
  timeline.stage.tip.hidden = true;
  pointIn(timeline, undefined);
};

// A plain wheel scrolls the page until somebody has clicked the timeline; a page that scrolls already goes on.
const onWheel = (timeline, event) => {
  const unit = event.deltaMode === 0 ? 1 : LINE;
  const [across, down] = [event.deltaX * unit, event.deltaY * unit];
  const isPan = event.shiftKey || Math.abs(across) > Math.abs(down);
  const isZoom = event.ctrlKey || event.metaKey;
  const isActive = timeline.plot.contains(document.activeElement) && event.timeStamp - scrolledAt > PAUSE;
  if (!isPan && !isZoom && !isActive) return;
  event.preventDefault();
  if (isPan && !isZoom) {
    timeline.move((across || down) / timeline.width);
    return;
  }
  const rate = Math.abs(down) >= NOTCH ? BY_WHEEL : BY_TRACKPAD;
  const { place } = timeline.placeOf(event);
  timeline.zoom(Math.exp(down * rate), Math.min(Math.max(place, 0), 1));
};

// The lanes between two heights.
const lanesBetween = ({ tops }, one, other) => {
  const [above, below] = [Math.min(one, other), Math.max(one, other)];
  return [...tops].filter(([lane, top]) => top + barOf(lane) > above && top < below).map(([lane]) => lane);
};

class Pointers {
  constructor(timeline) {
    this.timeline = timeline;
    this.down = new Map(); // the last event of each pointer that is down
    this.drag = undefined;
    this.clicked = undefined;
    const { body, head } = timeline.stage;
    body.addEventListener("pointerdown", (event) => this.onDown(event));
    body.addEventListener("pointermove", (event) => this.onMove(event));
    for (const type of ["pointerup", "pointercancel"]) body.addEventListener(type, (event) => this.onUp(event));
    body.addEventListener("pointerleave", () => hideTip(timeline));
    body.addEventListener("dblclick", (event) => this.onDouble(event));
    for (const part of [body, head]) {
      part.addEventListener("wheel", (event) => onWheel(timeline, event), { passive: false });
    }
  }

  onDown(event) {
    if ((event.target.closest("button") && !event.shiftKey) || event.button > 1) return;
    const { timeline } = this;
    if (event.pointerType === "mouse") event.preventDefault(); // no text is selected
    timeline.plot.focus({ preventScroll: true });
    this.down.set(event.pointerId, event);
    timeline.stage.body.setPointerCapture(event.pointerId);
    timeline.stage.tip.hidden = true;
    const isSelect = event.shiftKey || (timeline.tool === "select" && event.button === 0);
    this.begin(this.down.size > 1 ? "pinch" : isSelect ? "select" : "pan", event);
  }

  begin(what, event) {
    const { timeline } = this;
    this.drag = { what, event, view: timeline.view, from: timeline.placeOf(event), hasMoved: what === "pinch" };
    this.drag.fingers = [...this.down.values()].map((one) => timeline.placeOf(one));
    timeline.plot.classList.toggle("panning", what === "pan");
  }

  onMove(event) {
    const { timeline, drag } = this;
    if (!this.down.has(event.pointerId)) {
      if (event.pointerType === "mouse") showTip(timeline, event);
      return;
    }
    this.down.set(event.pointerId, event);
    const { clientX, clientY } = drag.event;
    drag.hasMoved ||= Math.hypot(event.clientX - clientX, event.clientY - clientY) >= STILL;
    if (!drag.hasMoved) return;
    if (drag.what === "pinch") this.pinch();
    else if (drag.what === "pan") this.pan(event.clientX - clientX);
    else this.select(event, false);
  }

  pan(pixels) {
    const { view } = this.drag;
    const moved = (pixels / this.timeline.width) * (view[1] - view[0]);
    this.timeline.show(view.map((time) => time - moved));
  }

  // The times under the fingers stay under them.
  pinch() {
    const { timeline, drag } = this;
    const [one, other] = [...this.down.values()].map((event) => timeline.placeOf(event).x);
    const [first, second] = drag.fingers.map(({ x }) => drag.view[0] + (x / timeline.width) * (drag.view[1] - drag.view[0]));
    const distance = Math.max(Math.abs(other - one), 2 * STILL);
    const span = (Math.abs(second - first) / distance) * timeline.width;
    const start = (first + second) / 2 - ((one + other) / 2 / timeline.width) * span;
    timeline.show([start, start + span]);
  }

  select(event, isDone) {
    const { timeline, drag } = this;
    const place = timeline.placeOf(event);
    const within = (time) => Math.min(Math.max(time, timeline.view[0]), timeline.view[1]);
    const [from, to] = [within(drag.from.time), within(place.time)].sort((one, other) => one - other);
    const { top } = timeline.stage.body.getBoundingClientRect();
    const selections = seenWith(timeline).map((other) => {
      const below = other.stage.body.getBoundingClientRect().top - top; // a drag goes on into other timelines
      const lanes = lanesBetween(other.placed, drag.from.y - below, place.y - below);
      return [other, lanes.length && (to > from || !isDone) ? { from, to, lanes } : undefined];
    });
    if (isDone) {
      timeline.selectIn(selections);
      return;
    }
    for (const [other, selection] of selections) {
      other.selection = selection;
      other.draw();
    }
  }

  onUp(event) {
    const { timeline, drag } = this;
    if (!this.down.delete(event.pointerId)) return;
    timeline.plot.classList.remove("panning");
    if (this.down.size === 1) {
      this.begin("pan", [...this.down.values()][0]); // one finger goes on
      this.drag.hasMoved = true;
    } else if (event.type === "pointerup" && drag.what === "select" && drag.hasMoved) this.select(event, true);
    else if (event.type === "pointerup" && !drag.hasMoved && event.button === 0) this.click(event);
  }

  click(event) {
    const cell = this.timeline.at(event);
    this.clicked = cell;
    if (cell) this.timeline.choose(cell);
    else this.timeline.unmark();
  }

  // Zooms to the event under the pointer; where none is, back to the first view.
  onDouble(event) {
    if (event.target.closest("button")) return;
    const { timeline, clicked } = this;
    timeline.show(clicked ? widenedBy([clicked.start, clicked.end], AROUND) : timeline.first);
  }
}
