// Timelines that share one view: the first that is seen has the tools for all, the others only what is theirs.

const TIMELINES = new Map(); // by their elements, as promises
const DRAWN = new Map(); // those that are there
const LIKE_STEPS = 0.1; // of a step's length; steps that begin with less between them are the same to choose from

const roots = () => [...document.querySelectorAll(".timeline")];

const togetherWith = (root) => {
  const { shared } = root.dataset;
  return shared ? roots().filter(({ dataset }) => dataset.shared === shared) : [root];
};

// The timeline whose tools are shown.
const leadOf = (root) => togetherWith(root).find(({ offsetParent }) => offsetParent) ?? root;

const drawnWith = ({ root }) => togetherWith(root).map((one) => DRAWN.get(one)).filter(Boolean);

// Shows the others what one shows.
const share = (timeline, view) => {
  for (const root of togetherWith(timeline.root)) {
    if (root !== timeline.root) TIMELINES.get(root)?.then((one) => one.show(view, true));
  }
};

const hasSameSteps = (one, other) => {
  const [own, its] = [one.data.steps, other.data.steps];
  const isLike = (name, at) =>
    name === its.names[at] && Math.abs(own.start[at] - its.start[at]) < LIKE_STEPS * (own.last[at] - own.start[at]);
  return own.names.length === its.names.length && own.names.every(isLike);
};

// Says which timelines have the tools, and which only what is theirs.
const arrangeTools = () => {
  for (const root of roots()) {
    const lead = leadOf(root);
    root.classList.toggle("follows", lead !== root);
    const [own, its] = [DRAWN.get(root), DRAWN.get(lead)];
    root.querySelector(".choice").hidden = lead !== root && own && its && hasSameSteps(own, its);
  }
};

const searchAll = (timeline, text) => {
  for (const one of drawnWith(timeline)) {
    one.root.querySelector(".find").value = text;
    one.search(text.trim());
  }
};

const nextMatchOfAll = (timeline, by) =>
  (drawnWith(timeline).find(({ finder }) => finder.count) ?? timeline).nextMatch(by);

const clearAll = (timeline) => drawnWith(timeline).forEach((one) => one.clear());

// Shows all of the longest recording.
const showAll = (timeline) => {
  const length = ({ whole: [from, to] }) => to - from;
  const longest = drawnWith(timeline).reduce((one, other) => (length(other) > length(one) ? other : one), timeline);
  return longest.show(longest.whole);
};

// The one that a link is of: with what is chosen or selected, if there is such.
const linkedOf = (timeline) =>
  [timeline, ...drawnWith(timeline)].find(({ chosen, selection }) => chosen || selection) ?? timeline;

const focusSearch = (timeline) => {
  const lead = leadOf(timeline.root);
  drawOnce(lead);
  lead.querySelector(".find").focus();
};

// What was chosen for all holds for one that is drawn later, too.
const joinOthers = (timeline) => {
  const other = drawnWith(timeline).find((one) => one !== timeline);
  const text = other?.root.querySelector(".find").value;
  if (other) chooseTool(timeline, other.tool);
  if (text) searchAll(timeline, text);
  arrangeTools();
};
