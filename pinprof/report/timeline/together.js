// Timelines that share one view are as one: one axis, strip, legend and set of tools, one search and one selection.

const TIMELINES = new Map(); // by their elements, as promises
const DRAWN = new Map(); // those that are there

const roots = () => [...document.querySelectorAll(".timeline")];

const togetherWith = (root) => {
  const { shared } = root.dataset;
  return shared ? roots().filter(({ dataset }) => dataset.shared === shared) : [root];
};

// The timeline whose tools are shown.
const leadOf = (root) => togetherWith(root).find(({ offsetParent }) => offsetParent) ?? root;

const drawnWith = ({ root }) => togetherWith(root).map((one) => DRAWN.get(one)).filter(Boolean);
const seenWith = (timeline) => drawnWith(timeline).filter(({ root }) => root.offsetParent);

// The drawn timeline that has the tools, itself if that one is not drawn yet.
const drawnLead = (timeline) => DRAWN.get(leadOf(timeline.root)) ?? timeline;

// Shows the others what one shows.
const share = (timeline, view) => {
  for (const root of togetherWith(timeline.root)) {
    if (root !== timeline.root) TIMELINES.get(root)?.then((one) => one.show(view, true));
  }
};

// Gives those that are drawn one range of time to move in, and says which of them has the tools.
const arrangeTools = () => {
  for (const root of roots()) root.classList.toggle("follows", leadOf(root) !== root);
  for (const [root, timeline] of DRAWN) {
    const ranges = drawnWith(timeline).map(({ recorded }) => recorded);
    timeline.whole = [Math.min(...ranges.map(([from]) => from)), Math.max(...ranges.map(([, to]) => to))];
    if (leadOf(root) === root) drawLegend(timeline);
    timeline.finder.tell();
    timeline.draw();
  }
  for (const plot of document.querySelectorAll(".timeline[data-shared] .plot")) axisObserver.observe(plot);
};

// The axis is drawn once: above the first of the plots that are on the screen.
const onScreen = new Set();
const axisObserver = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) onScreen[isIntersecting ? "add" : "delete"](target);
  for (const root of roots()) {
    const first = togetherWith(root).find((one) => onScreen.has(one.querySelector(".plot"))) ?? leadOf(root);
    root.classList.toggle("on-top", first === root);
  }
});

const searchAll = (timeline, text) => {
  for (const one of drawnWith(timeline)) {
    one.root.querySelector(".find").value = text;
    one.search(text.trim());
  }
};

const clearAll = (timeline) => drawnWith(timeline).forEach((one) => one.clear());

const toggleInAll = (timeline, kind) => drawnWith(timeline).forEach((one) => one.toggle(kind));

// Shows all that was recorded.
const showAll = (timeline) => timeline.show(timeline.whole);

// The one that a link is of: with what is chosen, if there is such.
const linkedOf = (timeline) => seenWith(timeline).find(({ chosen }) => chosen) ?? timeline;

const focusSearch = (timeline) => {
  const lead = leadOf(timeline.root);
  drawOnce(lead);
  lead.querySelector(".find").focus();
};

// What was chosen for all holds for one that is drawn later, too.
const joinOthers = (timeline) => {
  const other = drawnWith(timeline).find((one) => one !== timeline);
  const text = other?.root.querySelector(".find").value;
  if (other) {
    chooseTool(timeline, other.tool);
    timeline.hideKinds(other.hidden);
  }
  if (text) searchAll(timeline, text);
  arrangeTools();
};
