// Timelines that share a view act as one: one axis, strip, legend, toolbar, search and selection; and links to a view.

const TIMELINES = new Map(); // by root element, as promises
const DRAWN = new Map(); // by root element, those that are ready

const roots = () => [...document.querySelectorAll(".timeline")];

const togetherWith = (root) => {
  const { shared } = root.dataset;
  return shared ? roots().filter(({ dataset }) => dataset.shared === shared) : [root];
};

// The timeline whose toolbar is shown.
const leadRoot = (root) => togetherWith(root).find(({ offsetParent }) => offsetParent) ?? root;

const drawnWith = ({ root }) => togetherWith(root).map((one) => DRAWN.get(one)).filter(Boolean);
const seenWith = (timeline) => drawnWith(timeline).filter(({ root }) => root.offsetParent);

// The drawn timeline with the toolbar; the given one if that is not drawn yet.
const leadTimeline = (timeline) => DRAWN.get(leadRoot(timeline.root)) ?? timeline;

// Gives the view of a timeline to the others.
const showInOthers = (timeline, view) => {
  for (const root of togetherWith(timeline.root)) {
    if (root !== timeline.root) TIMELINES.get(root)?.then((one) => one.show(view, true));
  }
};

// Gives the drawn timelines one range of time, and shows the toolbar of the first alone.
const arrangeTools = () => {
  for (const root of roots()) root.classList.toggle("follows", leadRoot(root) !== root);
  for (const [root, timeline] of DRAWN) {
    const ranges = drawnWith(timeline).map(({ recorded }) => recorded);
    timeline.whole = [Math.min(...ranges.map(([from]) => from)), Math.max(...ranges.map(([, to]) => to))];
    if (leadRoot(root) === root) drawLegend(timeline);
    timeline.finder.writeCount();
    timeline.draw();
  }
  for (const plot of document.querySelectorAll(".timeline[data-shared] .plot")) axisObserver.observe(plot);
};

// The axis is drawn once: above the first plot on the screen.
const onScreen = new Set();
const axisObserver = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) onScreen[isIntersecting ? "add" : "delete"](target);
  for (const root of roots()) {
    const first = togetherWith(root).find((one) => onScreen.has(one.querySelector(".plot"))) ?? leadRoot(root);
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

// The timeline that a link is about: the one with a chosen event, if there is one.
const linkedOf = (timeline) => seenWith(timeline).find(({ chosen }) => chosen) ?? timeline;

const focusSearch = (timeline) => {
  const lead = leadRoot(timeline.root);
  drawOnce(lead);
  lead.querySelector(".find").focus();
};

// Gives a timeline that is drawn later the tool, hidden kinds and search of the others.
const adoptShared = (timeline) => {
  const other = drawnWith(timeline).find((one) => one !== timeline);
  const text = other?.root.querySelector(".find").value;
  if (other) {
    chooseTool(timeline, other.tool);
    timeline.hideKinds(other.hidden);
  }
  if (text) searchAll(timeline, text);
  arrangeTools();
};

// The fragment of the page's address holds the view, the chosen event and the selections, so that a link opens the same.

const isAddressed = () => !location.protocol.startsWith("about") && !location.protocol.startsWith("blob");

const rounded = (times) => times.map(Math.round);

// The first and the last of each run in rising numbers: lanes of a selection have gaps where lanes are folded.
const runsOf = (numbers) =>
  numbers.flatMap((number, at) => [
    ...(number - 1 === numbers[at - 1] ? [] : [number]),
    ...(number + 1 === numbers[at + 1] ? [] : [number]),
  ]);

// The fragment for a timeline, by its number on the page.
const fragmentOf = (timeline, number) => {
  const { view, chosen, data } = timeline;
  const parts = [`t=${[number, ...rounded(view)].join()}`];
  if (chosen) parts.push(`e=${[data.lanes.indexOf(chosen.lane), chosen.at].join()}`);
  for (const one of drawnWith(timeline).filter(({ selection }) => selection)) {
    const lanes = one.selection.lanes.map((lane) => one.data.lanes.indexOf(lane));
    const of = one === timeline ? "" : roots().indexOf(one.root) + 1;
    parts.push(`s${of}=${[...rounded([one.selection.from, one.selection.to]), ...runsOf(lanes)].join()}`);
  }
  return `#${parts.join("&")}`;
};

const numbersOf = (text, count) => {
  const numbers = (text ?? "").split(",").map(Number);
  return text && (numbers.length === count || count === undefined) && numbers.every(Number.isFinite) ? numbers : undefined;
};

// Returns the parts of a fragment, undefined if it is not about a timeline.
const readFragment = (text) => {
  const parts = new URLSearchParams(text.replace(/^#/, ""));
  const where = numbersOf(parts.get("t"), 3);
  if (!where || where[2] <= where[1]) return undefined;
  const areas = [...parts].map(([key, value]) => [/^s(\d*)$/.exec(key)?.[1], numbersOf(value)]).filter((area) => area[1]);
  return {
    number: where[0],
    view: where.slice(1),
    event: numbersOf(parts.get("e"), 2),
    areas: areas.filter(([of]) => of !== undefined).map(([of, area]) => [Number(of || where[0]), area]),
  };
};

const selectionOf = (timeline, [from, to, ...runs]) => {
  const isIn = (number) => runs.some((first, at) => at % 2 === 0 && first <= number && number <= runs[at + 1]);
  const lanes = timeline.data.lanes.filter((_, number) => isIn(number));
  for (const { group } of lanes) timeline.folded.delete(group);
  return lanes.length && to > from ? { from, to, lanes } : undefined;
};

const openFragment = async (timeline, { view, event, areas }) => {
  const { lanes } = timeline.data;
  if (areas.length) {
    const ofRoots = areas.map(([number, area]) => [roots()[number - 1], area]);
    const shared = ofRoots.filter(([root]) => togetherWith(timeline.root).includes(root));
    const selections = shared.map(async ([root, area]) => {
      const one = await drawOnce(root);
      return [one, selectionOf(one, area)];
    });
    timeline.selectIn(await Promise.all(selections));
  }
  const lane = event && lanes[event[0]];
  if (lane && event[1] < lane.size) {
    timeline.folded.delete(lane.group);
    timeline.choose(cellOfEvent(lane, event[1]));
  }
  return timeline.show(view);
};

// Writes the fragment when a timeline that somebody moved has come to rest; a page in a frame has no address.
const writeFragment = (timeline, number) => {
  if (!isAddressed() || !timeline.isLeading) return;
  const text = fragmentOf(timeline, number);
  if (location.hash === text) return;
  try {
    history.replaceState(history.state, "", text);
  } catch {
    timeline.isLeading = false; // a browser that forbids it
  }
};

const copyLink = async (timeline, number) => {
  timeline.isLeading = true;
  writeFragment(timeline, number);
  const output = timeline.root.querySelector(".found");
  try {
    await navigator.clipboard.writeText(location.href);
    output.textContent = "link copied";
  } catch {
    output.textContent = "copy the link from the address bar";
  }
};
