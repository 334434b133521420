// The details of an event: its text, and related events as buttons.

const SHOWN = 12; // related events, each with its button

const eventButton = (timeline, { lane, at }) => {
  const length = lane.end[at] - lane.start[at];
  const name = labelOf(timeline.data, { lane, first: at, last: at }, lane.count?.[at] ?? 1);
  const button = newButton(`${name} ${duration(length)}`, () => timeline.goTo(lane, at), "event");
  button.title = nameOf(timeline.data, { lane, first: at });
  return button;
};

const relationLine = (timeline, { what, events, count, time, all }) => {
  const line = newElement("li", "");
  const sum = count > 1 ? ` ${counted(count)}${time ? `, ${duration(time)}` : ""}` : "";
  line.append(newElement("span", "relation", `${what}${sum}: `));
  line.append(...events.slice(0, SHOWN).map((event) => eventButton(timeline, event)));
  if (count > 1 && all) line.append(newButton("show all", () => timeline.showEvents(all)));
  else if (count > SHOWN) line.append(newElement("span", "", " …"));
  return line;
};

const namesakesLine = (timeline, lane, at) => {
  const { count, time } = namesakes(timeline.data, lane, at);
  if (count < 2) return [];
  const line = newElement("li", "");
  const name = lane.name[at];
  const isOne = (one, place) => one.source === lane.source && one.name?.[place] === name;
  line.append(
    newElement("span", "relation", `${counted(count)} of this name, ${duration(time)} in all: `),
    newButton("show all", () => timeline.finder.light(isOne)),
  );
  return [line];
};

// An element with the details of a cell; `what` is its part in a finding.
const detailsOf = (timeline, cell, what = "") => {
  const { data } = timeline;
  const [heading, ...lines] = textOfEvent(data, cell);
  const item = asParagraphs([what ? `${what}: ${heading}` : heading, ...lines]);
  const list = newElement("ul", "related");
  const { lane, first: at } = cell;
  const zoom = newButton("zoom to it", () => timeline.show(widenedBy([cell.start, cell.end], AROUND)));
  const line = newElement("li", "");
  line.append(zoom);
  if (cell.count === 1 && !MEASURES.has(lane.source)) {
    list.append(...relationsOf(data, lane, at).map((relation) => relationLine(timeline, relation)));
    if (lane.name) list.append(...namesakesLine(timeline, lane, at));
  }
  list.append(line);
  item.append(list);
  return item;
};
