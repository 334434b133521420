// Shows and hides the timelines of ranks, and goes to the rank that somebody chose in a chart or a table.

const rankSections = [...document.querySelectorAll(".of-rank")];
const rankButtons = [...document.querySelectorAll(".ranks [data-rank]")];
const sectionOf = (rank) => rankSections.find((section) => section.dataset.rank === rank);

const showRank = (rank, isShown) => {
  sectionOf(rank).hidden = !isShown;
  for (const button of rankButtons.filter((one) => one.dataset.rank === rank)) {
    button.setAttribute("aria-pressed", String(isShown));
  }
  arrangeTools();
};

// Draws the timeline of a rank, with the view of those that are shown.
const drawRank = async (rank) => {
  const root = sectionOf(rank).querySelector(".timeline");
  if (!root) return undefined;
  const timeline = await drawOnce(root);
  const shown = [...TIMELINES].find(([other]) => other !== root && other.dataset.shared === root.dataset.shared && other.offsetParent);
  if (shown) await timeline.show((await shown[1]).view, true);
  return root;
};

// Goes to the timeline of a rank; if the page has none, says how to get it.
const goToRank = async (rank, file = "") => {
  const section = sectionOf(rank);
  const note = document.querySelector(".rank-note");
  if (!note) return;
  note.textContent = section ? "" : `Rank ${rank} is not drawn here: pinprof report ${file || "its trace"} --html FILE draws it.`;
  if (!section) {
    note.scrollIntoView({ block: "center" });
    return;
  }
  showRank(rank, true);
  section.scrollIntoView({ block: "start" });
  const root = await drawRank(rank);
  section.scrollIntoView({ block: "start" });
  root?.querySelector(".plot").focus({ preventScroll: true });
};

for (const button of rankButtons) {
  button.addEventListener("click", () => {
    const isShown = button.getAttribute("aria-pressed") !== "true";
    showRank(button.dataset.rank, isShown);
    if (isShown) drawRank(button.dataset.rank);
  });
}
for (const button of document.querySelectorAll(".to-rank")) {
  button.addEventListener("click", () => goToRank(button.dataset.rank));
}
document.addEventListener("click", ({ target }) => {
  if (target.matches(".chart [data-rank]")) goToRank(target.dataset.rank, target.dataset.file);
});
