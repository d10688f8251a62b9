// Follows a judging. Without this script the page reloads by itself every two seconds.
const live = document.getElementById("live");
const word = document.getElementById("state");
const now = document.getElementById("now");
const steps = document.getElementById("steps");
const log = document.getElementById("log");
const progress = document.getElementById("progress");
const KEPT = 12;   // newest steps shown

const saying = {
  queued: "Waiting for a worker",
  building: "Starting",
  running: "Judging",
  done: "Done",
};

function step(event, text, outcome) {
  const line = document.createElement("li");
  const time = document.createElement("span");
  time.className = "n quiet";
  time.textContent = `${event.lastEventId}`;
  const what = document.createElement("span");
  what.textContent = text;
  const how = document.createElement("span");
  how.className = outcome && outcome !== "accepted" ? "bad n" : "n";
  how.textContent = outcome ?? "";
  line.append(time, what, how);
  steps.prepend(line);
  while (steps.children.length > KEPT) steps.lastElementChild.remove();
}

function advance(done, of) {
  if (!Number.isFinite(done) || !Number.isFinite(of) || of <= 0) return progress.removeAttribute("value");
  progress.max = of;
  progress.value = Math.min(done, of);
}

const handlers = {
  state(event, data) {
    word.textContent = data.state;
    now.textContent = saying[data.state] ?? data.state;
    step(event, now.textContent);
    if (data.state !== "done") advance();
  },
  build(event, data) {
    now.textContent = "Building";
    step(event, data.message ?? "Built");
  },
  check(event, data) {
    const name = data.case ?? "a hidden case";
    now.textContent = `Checking ${name}`;
    advance(data.done, data.of);
    step(event, `Checked ${name}, ${data.done} of ${data.of}`, data.outcome);
  },
  time(event, data) {
    now.textContent = `Timing ${data.case}`;
    advance(data.block, data.of);
    step(event, `Timed ${data.case}, block ${data.block} of ${data.of}`);
  },
  log(event, data) {
    if (!data.text) return;
    log.hidden = false;
    log.textContent = (log.textContent + data.text).slice(-20000);
    log.scrollTop = log.scrollHeight;
  },
  verdict() {
    source.close();
    location.reload();
  },
};

const source = new EventSource(live.dataset.events);
for (const [kind, handle] of Object.entries(handlers)) {
  source.addEventListener(kind, (event) => handle(event, JSON.parse(event.data)));
}
source.addEventListener("open", () => { live.dataset.followed = "yes"; });
source.addEventListener("error", () => {
  if (source.readyState === EventSource.CLOSED) location.reload();   // the stream says that nothing more will come
});
