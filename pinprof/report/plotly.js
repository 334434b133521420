// Loads plotly for the charts: the page has it packed.
"use strict";
const plotly = (() => {
  const AFTER = 500; // ms after loading; then plotly is unpacked (in no long task) for those who print
  const LOOK = 50; // ms between looks at whether the page is at rest
  const QUIET = 1000; // ms without input, where a timeline is on the screen
  const PAUSE = 150; // ms without input, where none is

  const inflated = (text) => {
    const packed = atob(text.trim());
    const bytes = new Uint8Array(packed.length);
    for (let at = 0; at < bytes.length; at++) bytes[at] = packed.charCodeAt(at);
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).text();
  };

  let code;
  const load = async () => {
    code = await inflated(document.getElementById("plotly").textContent);
  };
  let loading;
  const unpacked = () => (loading ??= load());

  const evaluated = () => {
    if (!window.Plotly && code) {
      const script = document.createElement("script");
      script.textContent = code;
      document.head.append(script);
      code = undefined;
    }
    return window.Plotly;
  };

  // When somebody last touched the page, or a timeline was drawn.
  const hasTimelines = document.querySelector(".timeline") !== null;
  let touched = hasTimelines ? performance.now() : -QUIET;
  let hasScrolled = false;
  const note = ({ type }) => {
    touched = performance.now();
    hasScrolled ||= type === "scroll";
  };
  for (const type of ["pointermove", "pointerdown", "touchmove", "wheel", "keydown", "scroll"]) {
    addEventListener(type, note, { capture: true, passive: true });
  }
  const isDrawing = () => document.querySelector(".timeline[data-drawing]") !== null;
  const isMoving = () => document.querySelector(".plot[data-moving]") !== null; // a held key sends no more input
  const isTimelineSeen = () =>
    [...document.querySelectorAll(".timeline .plot")].some((plot) => {
      const { top, bottom } = plot.getBoundingClientRect();
      return bottom > 0 && top < window.innerHeight;
    });
  const isAtRest = () => {
    if (isDrawing() || isMoving()) touched = performance.now();
    const quiet = performance.now() - touched;
    return quiet >= QUIET || (quiet >= PAUSE && hasScrolled && !isTimelineSeen());
  };

  const waited = (time) => new Promise((resolve) => setTimeout(resolve, time));

  // Evaluating plotly stops the page for a second or more, so wait until nobody uses it.
  const atRest = async () => {
    await unpacked();
    while (!window.Plotly && !isAtRest()) await waited(LOOK);
    return evaluated();
  };

  const forPaper = async () => {
    while (isDrawing()) await waited(LOOK);
    await unpacked().catch(() => {}); // the charts show the error
  };
  addEventListener("load", () => setTimeout(forPaper, AFTER));
  return { unpacked, atRest, evaluated };
})();
