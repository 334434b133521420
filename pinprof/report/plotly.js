// Gives plotly to the charts when the first of them is to be drawn: the page has it packed, or in a notebook the cell
// that showed the first report does.
"use strict";
const plotly = (() => {
  const EVERY = 250; // ms between questions
  const MOST = 20; // questions
  const AFTER = 3000; // ms; then it is made ready for those who print
  const QUIET = 1000; // ms without input

  const inflated = (text) => {
    const packed = atob(text.trim());
    const bytes = Uint8Array.from(packed, (character) => character.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).text();
  };

  // A frame of a notebook may not look into it, but ask.
  const ofNotebook = () =>
    new Promise((resolve, reject) => {
      let asked = 0;
      const ask = () => {
        if (asked++ < MOST) parent.postMessage({ pinprof: "plotly" }, "*");
        else reject(new Error("run the cell again: the one that had plotly for this notebook is gone"));
      };
      const timer = setInterval(ask, EVERY);
      addEventListener("message", ({ source, data }) => {
        if (source !== parent || typeof data?.pinprofPlotly !== "string") return;
        clearInterval(timer);
        resolve(data.pinprofPlotly);
      });
      ask();
    });

  const load = async () => {
    const script = document.createElement("script");
    const own = document.getElementById("plotly");
    script.textContent = await inflated(own ? own.textContent : await ofNotebook());
    document.head.append(script);
    return window.Plotly;
  };

  let loading;
  const given = () => (loading ??= load());

  // It stops the page for half a second: not under somebody's hands.
  let touched = -QUIET;
  for (const type of ["pointermove", "pointerdown", "wheel", "keydown"]) {
    addEventListener(type, () => (touched = performance.now()), { capture: true, passive: true });
  }
  const whenQuiet = () => {
    if (performance.now() - touched > QUIET) (window.requestIdleCallback ?? setTimeout)(given);
    else setTimeout(whenQuiet, QUIET);
  };
  addEventListener("load", () => setTimeout(whenQuiet, AFTER));
  return given;
})();
