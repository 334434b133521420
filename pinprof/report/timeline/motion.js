// Moves the view while a key is held, and goes back and forward through what was seen.

const ZOOM = 1.6; // by one press of a key
const SHIFT = 0.2; // of the view, by one press of a key
const PRESS = 130; // ms; so long a press of a key takes, and from then on the view goes on as fast while it is held
const LIKE = 0.001; // of a view's length; views that differ by less are one

const movesLess = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

class Motion {
  constructor(timeline) {
    this.timeline = timeline;
    this.owed = new Map(); // by "zoom" or "move": what is left of a press, in presses of a direction
    this.held = new Map(); // by key: [what, direction]
    this.last = undefined;
  }

  // A key goes down, or repeats itself: the view moves a whole press at least.
  press(key, what, direction) {
    if (movesLess()) {
      this.apply(what, direction);
      return;
    }
    if (this.held.has(key)) return;
    this.held.set(key, [what, direction]);
    const left = this.owed.get(what) ?? 0;
    this.owed.set(what, left * direction > 0 ? left + direction : direction);
    if (this.last === undefined) {
      this.last = performance.now();
      requestAnimationFrame((time) => this.frame(time));
    }
  }

  release(key) {
    this.held.delete(key);
  }

  releaseAll() {
    this.held.clear();
  }

  apply(what, presses) {
    if (what === "zoom") this.timeline.zoom(ZOOM ** presses, this.timeline.pointed ?? 0.5);
    else this.timeline.move(SHIFT * presses);
  }

  frame(time) {
    const share = Math.min(Math.max(time - this.last, 0), 100) / PRESS;
    this.last = time;
    const going = new Map([...this.held.values()].map(([what, direction]) => [what, direction * share]));
    for (const [what, left] of this.owed) {
      const part = Math.sign(left) * Math.min(share * Math.max(Math.abs(left), 1), Math.abs(left));
      if (!going.has(what) || Math.abs(part) > share) going.set(what, part);
      if (part === left) this.owed.delete(what);
      else this.owed.set(what, left - part);
    }
    for (const [what, presses] of going) if (presses) this.apply(what, presses);
    if (this.held.size || this.owed.size) requestAnimationFrame((next) => this.frame(next));
    else this.last = undefined;
  }
}

const isLike = (one, other) => {
  const least = LIKE * Math.min(one[1] - one[0], other[1] - other[0]);
  return Math.abs(one[0] - other[0]) < least && Math.abs(one[1] - other[1]) < least;
};

// The views that somebody has rested at.
class Trail {
  constructor(timeline) {
    this.timeline = timeline;
    this.views = [timeline.view];
    this.place = 0;
    timeline.settled.push(() => this.note());
  }

  note() {
    const { view } = this.timeline;
    if (!isLike(view, this.views[this.place])) {
      this.views.splice(this.place + 1, Infinity, view);
      this.place += 1;
    }
    this.tell();
  }

  go(by) {
    const place = this.place + by;
    if (place < 0 || place >= this.views.length) return false;
    this.place = place;
    this.timeline.show(this.views[place]);
    this.tell();
    return true;
  }

  tell() {
    const { root } = this.timeline;
    root.querySelector(".back").disabled = this.place === 0;
    root.querySelector(".forward").disabled = this.place === this.views.length - 1;
  }
}
