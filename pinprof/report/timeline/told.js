// All that is known of an event, with what it has to do with others as buttons that lead there.

const SHOWN = 12; // related events, each with its button

const pressable = (text, action, className = "") => {
  const button = made("button", className, text);
  button.type = "button";
  button.addEventListener("click", action);
  return button;
};

const closing = (text, action) => {
  const button = pressable("×", action, "close");
  button.setAttribute("aria-label", text);
  return button;
};

const eventButton = (timeline, { lane, at }) => {
  const length = lane.end[at] - lane.start[at];
  const name = labelOf(timeline.data, { lane, first: at, last: at }, lane.count?.[at] ?? 1);
  const button = pressable(`${name} ${duration(length)}`, () => timeline.goTo(lane, at), "event");
  button.title = nameOf(timeline.data, { lane, first: at });
  return button;
};

const relationLine = (timeline, { what, events, count, time, all }) => {
  const line = made("li", "");
  const sum = count > 1 ? ` ${counted(count)}${time ? `, ${duration(time)}` : ""}` : "";
  line.append(made("span", "relation", `${what}${sum}: `));
  line.append(...events.slice(0, SHOWN).map((event) => eventButton(timeline, event)));
  if (count > 1 && all) line.append(pressable("show all", () => timeline.showEvents(all)));
  else if (count > SHOWN) line.append(made("span", "", " …"));
  return line;
};

const namesakesLine = (timeline, lane, at) => {
  const { count, time } = namesakes(timeline.data, lane, at);
  if (count < 2) return [];
  const line = made("li", "");
  const name = lane.name[at];
  const isOne = (one, place) => one.source === lane.source && one.name?.[place] === name;
  line.append(
    made("span", "relation", `${counted(count)} of this name, ${duration(time)} in all: `),
    pressable("show all", () => timeline.finder.light(isOne)),
  );
  return [line];
};

// An element that tells of what was clicked, or of one thing that a finding marks.
const toldOf = (timeline, cell, what = "") => {
  const { data } = timeline;
  const [heading, ...lines] = wordsOf(data, cell);
  const recorded = cell.count === 1 ? recordedOf(data, cell.lane, cell.first) : NOTHING_RECORDED;
  const item = asParagraphs([what ? `${what}: ${heading}` : heading, ...lines, ...recorded.lines]);
  const list = made("ul", "related");
  const { lane, first: at } = cell;
  const zoom = pressable("zoom to it", () => timeline.show(widenedBy([cell.start, cell.end], AROUND)));
  const line = made("li", "");
  line.append(zoom);
  if (cell.count === 1 && lane.source !== "overlap") {
    list.append(...relationsOf(data, lane, at).map((relation) => relationLine(timeline, relation)));
    if (lane.name) list.append(...namesakesLine(timeline, lane, at));
  }
  list.append(line);
  item.append(list, ...othersOf(timeline, recorded.others));
  return item;
};
