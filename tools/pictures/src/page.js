"use strict";
// What page.rs writes: names, and lists of numbers, so many to an entry. Times are nanoseconds.
const data = JSON.parse(document.getElementById("data").textContent);
const element = (id) => document.getElementById(id);
const plot = element("plot"), axis = element("axis"), hover = element("hover"), status = element("status");
const BAR = 18, ROW = 24, TASK = 34, SERVICE = 0xfffffffe, BACKGROUND = 0xffffffff;

//--- Reading

// A list of slices that do not overlap, by time.
const layer = (style) => ({ style, slices: [] });
const rows = [];
const row = (name, height, styles) => {
  const top = rows.length ? rows.at(-1).top + rows.at(-1).height : 0;
  rows.push({ name, height, top, layers: Object.fromEntries(styles.map((style) => [style, layer(style)])), marks: {} });
  return rows.at(-1);
};
const each = (name, width, read) => {
  const list = data[name];
  for (let at = 0; at < list.length; at += width) read(...list.slice(at, at + width));
  return list.length / width;
};

const cpus = Array.from({ length: data.cpus }, (_, cpu) => row("CPU " + cpu, ROW, ["run"]));
const engines = data.engines.map((name) => row(name, ROW, ["drain", "hold"]));
const tokens = data.tokens.map((name) => row(name, ROW, ["hold"]));
const tasks = data.tasks.map((name, task) => Object.assign(row(name, TASK, ["wait", "part", "dry"]), { task, jobs: [] }));

const key = (word) => word === SERVICE ? "of services" : word === BACKGROUND ? "of background tasks" : word + " us";
const ofJob = (task, job) => data.tasks[task] + (job ? "#" + job : "");
let read = 0;
read += each("runs", 8, (cpu, task, job, payer, word, inherits, from, until) => {
  const slice = { task, payer, inherits, from, until, label: ofJob(task, job), tell: () =>
    ofJob(task, job) + " on CPU " + cpu + "\non the budget of " + data.tasks[payer] + ", key " + key(word) + (inherits ? ", not its own" : "") };
  cpus[cpu].layers.run.slices.push(slice);
  tasks[task].layers.part.slices.push(slice);
});
const held = (lanes, style, what) => (of, task, from, until) => lanes[of].layers[style].slices.push(
  { task, from, until, label: data.tasks[task], tell: () => data.tasks[task] + " " + what + " " + lanes[of].name });
read += each("holds", 4, held(engines, "hold", "holds"));
read += each("drains", 4, held(engines, "drain", "gave back, and still uses,"));
read += each("held_tokens", 4, held(tokens, "hold", "holds"));
read += each("waits", 6, (task, job, lock, words, from, until) => tasks[task].layers.wait.slices.push(
  { task, lock, from, until, tell: () => ofJob(task, job) + " " + data.words[words] }));
read += each("dry", 3, (task, from, until) => tasks[task].layers.dry.slices.push(
  { task, from, until, tell: () => data.tasks[task] + " has exhausted its budget" }));
const missed = [];
read += each("jobs", 5, (task, number, release, deadline, end) => {
  const done = end < 0 ? null : end;
  const job = { task, number, release, deadline, done, late: (done ?? data.end) > deadline };
  tasks[task].jobs.push(job);
  if (job.late) missed.push(job);
});
for (const one of rows) for (const { slices } of Object.values(one.layers)) slices.sort((a, b) => a.from - b.from);
for (const one of tasks) {
  const times = (list, of) => list.map(of).filter((time) => time !== null).sort((a, b) => a - b);
  one.marks = {
    release: times(one.jobs, (job) => job.release),
    deadline: times(one.jobs, (job) => job.deadline),
    done: times(one.jobs.filter((job) => !job.late), (job) => job.done),
    late: times(one.jobs.filter((job) => job.late), (job) => job.done),
    skip: [],
  };
}
each("skips", 2, (task, time) => tasks[task].marks.skip.push(time));

//--- Which part is shown

const view = { from: 0, until: data.end || 1 };
let chosen = null, width = 0, left = 0, wanted = false;
const x = (time) => left + (time - view.from) / (view.until - view.from) * (width - left - 8);
const time = (at) => view.from + (at - left) / (width - left - 8) * (view.until - view.from);

// The first entry after `from` of a sorted list.
const first = (list, from, of) => {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (of(list[middle]) > from) high = middle; else low = middle + 1;
  }
  return low;
};
const until = (slice) => slice.until, itself = (time) => time;

const show = (from, to) => {
  const length = Math.min(Math.max(to - from, 100), data.end || 1);
  view.from = Math.min(Math.max(from, 0), Math.max((data.end || 1) - length, 0));
  view.until = view.from + length;
  redraw();
};
const zoom = (factor, at = (view.from + view.until) / 2) =>
  show(at - (at - view.from) * factor, at - (at - view.from) * factor + (view.until - view.from) * factor);
const pan = (part) => show(view.from + (view.until - view.from) * part, view.until + (view.until - view.from) * part);

const micros = (time) => (time / 1000).toFixed(3) + " us";
const choose = (job) => {
  chosen = job;
  const last = Math.max(job.deadline, job.done ?? data.end), margin = (last - job.release) / 5 + 1000;
  const end = job.done === null ? "not complete at the end" :
    "complete at " + micros(job.done) + ", " + micros(Math.abs(job.done - job.deadline)) + (job.late ? " after" : " before") + " its deadline";
  status.textContent = ofJob(job.task, job.number) + ": released at " + micros(job.release) + ", deadline " + micros(job.deadline) + ", " + end;
  show(job.release - margin, last + margin);
};
const find = (words) => {
  const [name, number] = words.trim().split("#"), task = tasks.find((one) => one.name === name);
  const job = task && task.jobs.find((one) => String(one.number) === number);
  if (job) return choose(job);
  const jobs = task && task.jobs.length ? "; its jobs are " + task.jobs[0].number + " to " + task.jobs.at(-1).number : "";
  status.textContent = task ? "no job " + words.trim() + jobs : "no task " + name + "; a job is written task#number";
};

//--- Drawing

const redraw = () => {
  if (!wanted) requestAnimationFrame(draw);
  wanted = true;
};
const sharp = (canvas, height) => {
  const scale = devicePixelRatio || 1;
  canvas.width = width * scale;
  canvas.height = height * scale;
  canvas.style.height = height + "px";
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  pen.font = "11px sans-serif";
  return pen;
};
const hatch = (colour, step) => {
  const tile = document.createElement("canvas");
  tile.width = tile.height = step;
  const pen = tile.getContext("2d");
  pen.strokeStyle = colour;
  for (const shift of [-step, 0, step]) {
    pen.moveTo(shift, step);
    pen.lineTo(shift + step, 0);
  }
  pen.stroke();
  return pen.createPattern(tile, "repeat");
};
const shaded = hatch("rgba(30,30,30,.55)", 5), dry = hatch("#c0271d", 4);
// Where a layer of a row lies: top and height.
const place = { run: [3, BAR], hold: [3, BAR], drain: [3, BAR], part: [14, 12], wait: [22, 4], dry: [18, 8] };

const drawLayer = (pen, top, { style, slices }) => {
  const [above, height] = place[style];
  let at = first(slices, view.from, until);
  while (at < slices.length && slices[at].from < view.until) {
    const slice = slices[at], begin = Math.max(x(slice.from), left), end = Math.min(x(slice.until), width - 8);
    const wide = Math.max(end - begin, 1), y = top + above;
    pen.fillStyle = style === "wait" ? (slice.lock ? "#e2a72e" : "#c9c6bd") : style === "dry" ? dry : data.colours[slice.task];
    pen.globalAlpha = style === "drain" ? 0.45 : 1;
    pen.fillRect(begin, y, wide, height);
    pen.globalAlpha = 1;
    if (wide > 2 && (style === "run" || style === "part")) {
      if (slice.inherits) { pen.fillStyle = shaded; pen.fillRect(begin, y, wide, height); }
      if (slice.payer !== slice.task) { pen.fillStyle = data.colours[slice.payer]; pen.fillRect(begin, y + height - 4, wide, 4); }
    }
    if (wide > 4 && style !== "wait" && style !== "dry") { pen.strokeStyle = "#444"; pen.lineWidth = 0.6; pen.strokeRect(begin, y, wide, height); }
    if (slice.label && height === BAR && pen.measureText(slice.label).width + 6 < wide) {
      pen.fillStyle = "#222";
      pen.textAlign = "center";
      pen.fillText(slice.label, begin + wide / 2, y + 13);
    }
    // What ends within the pixel that is drawn is not drawn again.
    at = wide > 1 ? at + 1 : Math.max(at + 1, first(slices, time(begin + 1), until));
  }
};
const marks = {
  release: ["#222", (pen, at, base) => { pen.moveTo(at, base); pen.lineTo(at, base - 22); pen.lineTo(at - 3, base - 17); pen.moveTo(at, base - 22); pen.lineTo(at + 3, base - 17); pen.stroke(); }],
  deadline: ["#c0271d", (pen, at, base) => { pen.moveTo(at, base - 22); pen.lineTo(at, base); pen.lineTo(at - 3, base - 5); pen.moveTo(at, base); pen.lineTo(at + 3, base - 5); pen.stroke(); }],
  done: ["#222", (pen, at, base) => { pen.arc(at, base, 2.6, 0, 7); pen.fill(); }],
  late: ["#c0271d", (pen, at, base) => { pen.arc(at, base + 5, 2.6, 0, 7); pen.fill(); }],
  skip: ["#c0271d", (pen, at, base) => { for (const way of [-3, 3]) { pen.moveTo(at - way, base - 22); pen.lineTo(at + way, base - 16); } pen.stroke(); }],
};
const drawMarks = (pen, one) => {
  const base = one.top + 26;
  for (const [kind, times] of Object.entries(one.marks)) {
    const [colour, mark] = marks[kind];
    pen.strokeStyle = pen.fillStyle = colour;
    pen.lineWidth = 1.2;
    for (let at = first(times, view.from - 1, itself); at < times.length && times[at] <= view.until; at = Math.max(at + 1, first(times, time(x(times[at]) + 1), itself))) {
      pen.beginPath();
      mark(pen, x(times[at]), base);
    }
  }
};
const drawAxis = (pen) => {
  const span = view.until - view.from, room = Math.max((width - left) / 90, 2);
  let step = 1;
  for (let power = 1; step * room < span; power *= 10) for (const digit of [1, 2, 5]) if (step * room < span) step = digit * power;
  const [unit, name] = [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]].find(([unit]) => step % unit === 0);
  pen.fillStyle = "#444";
  pen.textAlign = "right";
  pen.fillText("time, " + name, left - 8, 16);
  pen.textAlign = "center";
  const ticks = [];
  for (let tick = Math.ceil(view.from / step) * step; tick <= view.until; tick += step) ticks.push(tick);
  for (const tick of ticks) if (x(tick) < width - 20) pen.fillText(tick / unit, x(tick), 16);
  return ticks;
};
const draw = () => {
  wanted = false;
  width = plot.clientWidth;
  left = Math.min(130, width / 4);
  const ticks = drawAxis(sharp(axis, 24));
  const height = rows.length ? rows.at(-1).top + rows.at(-1).height + 4 : 20, pen = sharp(plot, height);
  const rule = (time, colour, wide) => {
    pen.fillStyle = colour;
    if (time >= view.from && time <= view.until) pen.fillRect(x(time) - wide / 2, 0, wide, height);
  };
  for (const tick of ticks) rule(tick, "#e3e3e3", 1);
  for (const one of rows) {
    pen.fillStyle = one.jobs ? "#999" : "#f4f4f2";
    if (one.jobs) pen.fillRect(left, one.top + 26, width - left - 8, 1); else pen.fillRect(left, one.top + 3, width - left - 8, BAR);
    for (const part of Object.values(one.layers)) drawLayer(pen, one.top, part);
    if (one.jobs) drawMarks(pen, one);
    pen.fillStyle = "#222";
    pen.textAlign = "right";
    pen.fillText(one.name, left - (one.jobs ? 20 : 8), one.top + (one.jobs ? 24 : 16), left - 24);
    if (one.jobs) { pen.fillStyle = data.colours[one.task]; pen.fillRect(left - 16, one.top + 15, 9, 9); }
  }
  if (chosen) {
    rule(chosen.release, "#222", 1.5);
    rule(chosen.deadline, "#c0271d", 1.5);
    if (chosen.done !== null) rule(chosen.done, "#2a7d2a", 1.5);
    pen.textAlign = "left";
    const names = [["released", chosen.release, "#222"], ["deadline", chosen.deadline, "#c0271d"], ["complete", chosen.done, "#2a7d2a"]];
    for (const [number, [name, at, colour]] of names.entries()) {
      if (at === null || at < view.from || at > view.until) continue;
      pen.fillStyle = colour;
      pen.textAlign = x(at) > width - 70 ? "right" : "left";
      pen.fillText(name, x(at) + (pen.textAlign === "left" ? 3 : -3), tasks[chosen.task].top + 2 + 10 * number);
    }
  }
};

//--- What the reader does

const slicesAt = (one, at) => Object.values(one.layers).map(({ slices }) => {
  // A bar is at least a pixel wide.
  const slice = slices[first(slices, time(at - 1), until)];
  return slice && slice.from <= time(at + 1) ? slice : null;
}).filter((slice) => slice !== null);
const tell = (event) => {
  const box = plot.getBoundingClientRect(), at = event.clientX - box.left, y = event.clientY - box.top;
  const one = rows.find((one) => y >= one.top && y < one.top + one.height);
  const found = one && at >= left ? slicesAt(one, at) : [];
  const job = one?.jobs?.find((job) => time(at) >= job.release && time(at) <= Math.max(job.deadline, job.done ?? data.end));
  const lines = found.map((slice) => slice.tell() + "\n" + micros(slice.from) + " to " + micros(slice.until) + ": " + micros(slice.until - slice.from));
  if (job) lines.push(ofJob(job.task, job.number) + ": released at " + micros(job.release) + ", deadline " + micros(job.deadline));
  hover.style.display = lines.length ? "block" : "none";
  hover.textContent = lines.join("\n");
  hover.style.left = Math.max(0, Math.min(event.clientX + 14, innerWidth - hover.offsetWidth - 4)) + "px";
  hover.style.top = Math.max(0, Math.min(event.clientY + 14, innerHeight - hover.offsetHeight - 4)) + "px";
};
let grabbed = null;
plot.addEventListener("wheel", (event) => {
  event.preventDefault();
  if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) return pan((event.deltaX || event.deltaY) / 1000);
  zoom(Math.exp(Math.max(-100, Math.min(100, event.deltaY)) / 300), time(event.clientX - plot.getBoundingClientRect().left));
}, { passive: false });
plot.addEventListener("pointerdown", (event) => {
  grabbed = { at: event.clientX, from: view.from, until: view.until };
  plot.setPointerCapture(event.pointerId);
});
plot.addEventListener("pointermove", (event) => {
  tell(event);
  if (!grabbed) return;
  const moved = (grabbed.at - event.clientX) / (width - left - 8) * (grabbed.until - grabbed.from);
  show(grabbed.from + moved, grabbed.until + moved);
});
for (const end of ["pointerup", "pointercancel"]) plot.addEventListener(end, () => { grabbed = null; });
plot.addEventListener("pointerleave", () => { hover.style.display = "none"; });
const all = () => show(0, data.end);
const keys = { ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2), "+": () => zoom(0.7), "=": () => zoom(0.7), "-": () => zoom(1 / 0.7), 0: all };
plot.addEventListener("keydown", (event) => {
  if (!keys[event.key] || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  keys[event.key]();
});
for (const [id, act] of Object.entries({ in: keys["+"], out: keys["-"], back: keys.ArrowLeft, on: keys.ArrowRight, all })) element(id).addEventListener("click", act);
element("search").addEventListener("submit", (event) => {
  event.preventDefault();
  find(element("job").value);
});
addEventListener("resize", redraw);

//--- At first

const LISTED = 1000;
element("missed").querySelector("summary").textContent =
  missed.length + " missed deadlines" + (missed.length > LISTED ? ", of which the first " + LISTED + " are listed" : "");
for (const job of missed.slice(0, LISTED)) {
  const button = document.createElement("button");
  button.textContent = ofJob(job.task, job.number);
  button.addEventListener("click", () => choose(job));
  element("missed").append(button);
}
status.textContent = read + " slices read";
status.dataset.slices = read;
show(data.from, data.until);
// schedule.html#camera#7 shows that job.
if (location.hash) find(decodeURIComponent(location.hash.slice(1)));
draw();
