// The view and what is chosen in it, in the fragment of the page's address: a copied link opens the same.

const isAddressed = () => !location.protocol.startsWith("about") && !location.protocol.startsWith("blob");

const rounded = (times) => times.map(Math.round);

// The fragment of the page's so many-th timeline.
const fragmentOf = (timeline, number) => {
  const { view, chosen, selection, data } = timeline;
  const parts = [`t=${[number, ...rounded(view)].join()}`];
  if (chosen) parts.push(`e=${[data.lanes.indexOf(chosen.lane), chosen.at].join()}`);
  if (selection) {
    const lanes = selection.lanes.map((lane) => data.lanes.indexOf(lane));
    parts.push(`s=${[...rounded([selection.from, selection.to]), Math.min(...lanes), Math.max(...lanes)].join()}`);
  }
  return `#${parts.join("&")}`;
};

const numbersOf = (text, count) => {
  const numbers = (text ?? "").split(",").map(Number);
  return text && numbers.length === count && numbers.every(Number.isFinite) ? numbers : undefined;
};

// What a fragment says, or nothing if it is of something else.
const readFragment = (text) => {
  const parts = new URLSearchParams(text.replace(/^#/, ""));
  const where = numbersOf(parts.get("t"), 3);
  if (!where || where[2] <= where[1]) return undefined;
  return { number: where[0], view: where.slice(1), event: numbersOf(parts.get("e"), 2), area: numbersOf(parts.get("s"), 4) };
};

const openFragment = (timeline, { view, event, area }) => {
  const { lanes } = timeline.data;
  if (area) {
    const [from, to, first, last] = area;
    const chosen = lanes.slice(first, last + 1);
    for (const { group } of chosen) timeline.folded.delete(group);
    timeline.select(chosen.length ? { from, to, lanes: chosen } : undefined);
  }
  const lane = event && lanes[event[0]];
  if (lane && event[1] < lane.size) {
    timeline.folded.delete(lane.group);
    timeline.choose(newCell(lane, event[1]));
  }
  return timeline.show(view);
};

// Writes the fragment when a timeline that somebody moved comes to rest; a page within a page has none.
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
  const said = timeline.root.querySelector(".found");
  try {
    await navigator.clipboard.writeText(location.href);
    said.textContent = "link copied";
  } catch {
    said.textContent = "copy the link from the address bar";
  }
};
