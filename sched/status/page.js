// The page's script: fetches the JSON and shows it, again and again. All that
// comes from the scheduler becomes text, never markup.
"use strict";
(() => {
  const refresh = Number(document.documentElement.dataset.refresh);
  const source = location.pathname + "?view=json";
  const state = document.getElementById("state");
  const pause = document.getElementById("pause");
  const find = (id) => document.getElementById(id);

  const count = new Intl.NumberFormat("en");
  const seconds = (ns) => {
    const s = ns / 1e9;
    if (s < 1) return Math.max(0, Math.round(s * 1000)) + " ms";
    if (s < 60) return s.toFixed(1) + " s";
    if (s < 3600) return Math.floor(s / 60) + " min " + Math.floor(s % 60) + " s";
    return Math.floor(s / 3600) + " h " + Math.floor(s / 60 % 60) + " min";
  };
  const clock = (time) => new Date(time).toLocaleTimeString("en-GB", { hour12: false });
  const set = (node, text) => { if (node.textContent !== text) node.textContent = text; };

  // rows brings the body of a table in step with a list: one row for each item,
  // known by its key, filled in by fill(cells, item).
  const rows = (table, items, key, columns, fill) => {
    const body = table.tBodies[0];
    const old = new Map();
    for (const row of body.rows) old.set(row.dataset.key, row);
    items.forEach((item, at) => {
      const k = String(key(item, at));
      let row = old.get(k);
      old.delete(k); // should a key come twice
      if (!row) {
        row = document.createElement("tr");
        row.dataset.key = k;
        for (const name of columns) row.insertCell().className = name;
      }
      if (body.rows[at] !== row) body.insertBefore(row, body.rows[at] || null);
      fill(row.cells, item);
    });
    // Whoever is not in the list stands behind those who are.
    while (body.rows.length > items.length) body.lastElementChild.remove();
    const empty = find(table.id + "-empty");
    if (empty) {
      empty.hidden = items.length > 0;
      table.hidden = items.length === 0;
    }
  };
  const text = (cell, value, name) => {
    set(cell, value);
    if (name !== undefined && cell.className !== name) cell.className = name;
  };
  const long = (cell, value) => { // text that may be cut
    set(cell, value);
    if (cell.title !== value) cell.title = value;
  };

  // bar shows a value on a scale with marks at some other values, and words.
  const bar = (cell, value, scale, marks, full, words) => {
    let box = cell.firstElementChild;
    if (!box) {
      box = document.createElement("div");
      box.className = "load";
      const track = document.createElement("div");
      track.className = "bar";
      track.setAttribute("aria-hidden", "true");
      track.append(document.createElement("i"));
      box.append(track, document.createElement("span"));
      cell.append(box);
    }
    const track = box.firstElementChild;
    const fill = track.firstElementChild;
    const share = (n) => scale > 0 ? Math.min(100, 100 * n / scale) + "%" : "0%";
    fill.style.width = share(value);
    fill.className = full ? "full" : "";
    while (track.childElementCount - 1 > marks.length) track.lastElementChild.remove();
    while (track.childElementCount - 1 < marks.length) track.append(document.createElement("b"));
    marks.forEach((mark, i) => { track.children[i + 1].style.left = share(mark); });
    set(box.lastElementChild, words);
  };

  // What the embedder knows of the workers, by id as text: 64 bits do not fit a number.
  let about = new Map();
  const aboutRank = (r) => about.get(String(r.rank).split("/")[0]);

  // dead says why a rank cannot be used at all, shut what keeps it from new work; ""
  // for nothing. It is busy if it is for all classes that can wait.
  const dead = (r) => {
    const overloaded = r.overloaded && (r.aside_until ? "aside until " + clock(r.aside_until) : "overloaded");
    return [r.unavailable && "unavailable", overloaded, r.draining && "draining"].filter(Boolean).join(", ");
  };
  const busyForAll = (r) => Boolean(r.busy && r.busy.length > 0 && r.busy.every((b) => b.busy));
  const shut = (r) => dead(r) || (busyForAll(r) ? "busy" : "");

  // troubles lists what is wrong, the worst first: [how bad, in words].
  const troubles = (s) => {
    const list = [];
    const ranks = (n) => n + (n === 1 ? " rank" : " ranks");
    const reasons = (of) => {
      const counts = new Map();
      for (const r of of) {
        const kind = r.unavailable ? "unavailable" : r.aside_until ? "set aside" : r.overloaded ? "overloaded" : "draining";
        counts.set(kind, (counts.get(kind) || 0) + 1);
      }
      return [...counts].map(([kind, n]) => n + " " + kind).join(", ");
    };
    if (s.closed) list.push(["bad", "Closed: every request is refused."]);
    else if (s.draining) list.push(["warn", "Shutting down: new requests are refused."]);
    const out = s.ranks.filter((r) => dead(r) !== "");
    if (s.ranks.length === 0) list.push(["bad", "No workers: every request is refused."]);
    else if (out.length === s.ranks.length) list.push(["bad", "No rank can be used: " + reasons(out) + ". Every request is refused, or waits for a worker."]);
    for (const c of s.classes) {
      if (c.endpoint_until) list.push(["bad", "Class " + c.name + " waits for a worker that it may use, until " + clock(c.endpoint_until) + "."]);
    }
    if (out.length > 0 && out.length < s.ranks.length) list.push(["warn", ranks(out.length) + " of " + s.ranks.length + " cannot be used: " + reasons(out) + "."]);
    for (const c of s.classes) {
      for (const l of c.limits || []) {
        if (c.can_queue && !c.never_queues && l.usage >= l.bound) list.push(["warn", "Class " + c.name + " is full: " + l.limit + " " + count.format(l.usage) + " of " + count.format(l.bound) + ". New requests are refused."]);
      }
    }
    for (const note of s.notes || []) list.push(["warn", note]);
    const refused = (s.history || []).map((h) => [h.class, h.slots.slice(-6).reduce((n, slot) => n + slot.refused, 0)]).filter((e) => e[1] > 0);
    if (refused.length > 0) list.push(["warn", "Refused in the last minute: " + refused.map(([name, n]) => name + " " + count.format(n)).join(", ") + "."]);
    return list;
  };
  const banner = (s) => {
    const list = troubles(s);
    const waiting = s.classes.reduce((n, c) => n + c.pending, 0);
    const oldest = s.classes.reduce((n, c) => Math.max(n, c.pending > 0 ? c.oldest_ns : 0), 0);
    if (waiting > 0) list.push(["calm", count.format(waiting) + (waiting === 1 ? " request waits" : " requests wait") + ", the oldest for " + seconds(oldest) + "."]);
    const box = find("banner");
    const rank = { bad: 0, warn: 1, calm: 2 };
    list.sort((a, b) => rank[a[0]] - rank[b[0]]);
    const health = list.length === 0 || list[0][0] === "calm" ? "good" : list[0][0];
    if (list.length === 0) list.push(["good", "All is well: every rank can be used, and no request waits."]);
    box.hidden = false;
    box.className = list[0][0];
    set(box.firstElementChild, list[0][1]);
    const more = box.lastElementChild;
    const rest = list.slice(1);
    while (more.childElementCount > rest.length) more.lastElementChild.remove();
    while (more.childElementCount < rest.length) more.append(document.createElement("li"));
    rest.forEach(([tone, words], i) => { set(more.children[i], words); more.children[i].className = tone; });
    return health;
  };

  const meaning = {
    "waiting": "Requests that wait for their turn",
    "booked": "Live bookings: requests that run",
    "ranks open": "Ranks that take new requests of some class",
    "admitted": "Requests booked since the start",
    "queries": "Queries answered since the start; they book nothing",
    "rejected": "Requests that ended with an error since the start",
    "expired": "Bookings that were not touched for their time to live",
    "leaked": "Bookings whose owner lost them",
    "dropped": "Bookings whose worker was removed",
    "selector": "What chooses among ranks",
  };
  let last = null; // what the rate is counted from
  const totals = (s) => {
    const t = s.stats;
    const at = Date.parse(s.at);
    let rate = "";
    if (last && at > last.at) {
      const perSecond = (t.admitted - last.admitted) * 1000 / (at - last.at);
      rate = (perSecond < 10 ? perSecond.toFixed(1) : count.format(Math.round(perSecond))) + "/s";
    }
    if (!last || at > last.at) last = { at, admitted: t.admitted };
    const busy = s.ranks.filter((r) => shut(r) === "busy").length;
    const open = s.ranks.filter((r) => shut(r) === "").length;
    const out = s.ranks.filter((r) => dead(r) !== "").length;
    const rejected = Object.entries(t.rejected || {}).sort((a, b) => b[1] - a[1]);
    const list = [
      ["waiting", count.format(t.waiting), ""],
      ["booked", count.format(t.live), ""],
      ["ranks open", open + " of " + s.ranks.length, [busy > 0 && busy + " busy", out > 0 && out + " not usable"].filter(Boolean).join(", ")],
      ["admitted", count.format(t.admitted), rate],
      ["queries", count.format(t.queries), ""],
      ["rejected", count.format(rejected.reduce((n, r) => n + r[1], 0)), rejected.map((r) => r[0] + " " + count.format(r[1])).join(", ")],
      ["expired", count.format(t.expired), ""],
      ["leaked", count.format(t.leaked), ""],
      ["dropped", count.format(t.dropped), ""],
      ["selector", s.selector, ""],
    ].filter((e) => !["queries", "expired", "leaked", "dropped"].includes(e[0]) || e[1] !== "0");
    const box = find("totals");
    while (box.childElementCount > list.length) box.lastElementChild.remove();
    list.forEach(([name, value, note], i) => {
      let tile = box.children[i];
      if (!tile) {
        tile = document.createElement("div");
        const dd = document.createElement("dd");
        dd.append(document.createElement("span"), document.createElement("small"));
        tile.append(document.createElement("dt"), dd);
        box.append(tile);
      }
      set(tile.firstElementChild, name);
      tile.title = meaning[name] || "";
      set(tile.lastElementChild.firstElementChild, value);
      set(tile.lastElementChild.lastElementChild, note);
    });
  };

  // curve draws a line of what was admitted in each slot, and a red one of what was
  // refused, both on one scale.
  const curve = (cell, slots) => {
    if (!cell.firstElementChild) cell.append(find("curve").content.firstElementChild.cloneNode(true));
    const box = cell.firstElementChild;
    const most = slots.reduce((n, s) => Math.max(n, s.admitted, s.refused), 1);
    const points = (value) => slots.map((s, i) => (120 * i / (slots.length - 1)).toFixed(1) + "," + (23 - 22 * value(s) / most).toFixed(1)).join(" ");
    const sum = (value) => slots.reduce((n, s) => n + value(s), 0);
    box.children[1].setAttribute("points", points((s) => s.admitted));
    box.children[2].setAttribute("points", sum((s) => s.refused) > 0 ? points((s) => s.refused) : "");
    set(box.firstElementChild, "In 5 minutes " + count.format(sum((s) => s.admitted)) + " admitted, " + count.format(sum((s) => s.refused)) +
      " refused; the top is " + count.format(most) + " in 10 s");
  };
  const empty = Array.from({ length: 30 }, () => ({ admitted: 0, refused: 0, waited_ns: 0 }));

  const classes = (s) => {
    const past = new Map((s.history || []).map((h) => [h.class, h.slots]));
    rows(find("classes"), s.classes, (c) => c.name,
      ["id", "", "number", "number", "number", "number", "number", "number", "number", "", "number", "number", "wide"], (cells, c) => {
        const slots = past.get(c.name) || empty;
        const longest = slots.reduce((n, slot) => Math.max(n, slot.waited_ns), 0);
        text(cells[0], c.name);
        curve(cells[1], slots);
        text(cells[2], count.format(c.admitted || 0));
        const refused = Object.entries(c.rejected || {}).filter((r) => r[1] > 0).sort((a, b) => b[1] - a[1]);
        text(cells[3], count.format(refused.reduce((n, r) => n + r[1], 0)));
        cells[3].title = refused.map((r) => r[0] + " " + count.format(r[1])).join(", ");
        text(cells[4], longest >= 5e5 ? seconds(longest) : "");
        text(cells[5], count.format(c.pending));
        text(cells[6], c.pending > 0 ? seconds(c.oldest_ns) : "");
        text(cells[7], count.format(c.tokens));
        text(cells[8], count.format(c.cached_tokens));
        text(cells[9], c.order);
        text(cells[10], count.format(c.deficit));
        text(cells[11], count.format(c.quantum));
        const limits = (c.limits || []).map((l) => l.limit + " " + count.format(l.usage) + " of " + count.format(l.bound));
        if (c.endpoint_until) limits.unshift("without an endpoint until " + clock(c.endpoint_until));
        if (c.never_queues) long(cells[12], "never queues");
        else if (!c.can_queue && !c.endpoint_until) long(cells[12], "no busy threshold: no request waits");
        else long(cells[12], limits.join(", ") || "none");
        cells[12].classList.toggle("bad", c.can_queue && !c.never_queues && (c.limits || []).some((l) => l.usage >= l.bound));
        cells[12].classList.toggle("quiet", !c.can_queue);
      });
  };

  const heads = (s) => {
    const all = [];
    for (const c of s.classes) (c.heads || []).forEach((head, i) => all.push({ ...head, class: c.name, place: i + 1, pending: c.pending }));
    const now = Date.parse(s.at);
    rows(find("heads"), all, (h) => h.request,
      ["id", "number", "id", "number", "number", "number", "number", "number", "wide"], (cells, h) => {
        text(cells[0], h.class);
        text(cells[1], String(h.place));
        long(cells[2], h.request + (h.query ? " (query)" : ""));
        text(cells[3], seconds(h.waited_ns));
        text(cells[4], String(h.priority || 0));
        text(cells[5], h.due ? seconds((Date.parse(h.due) - now) * 1e6) : "");
        text(cells[6], count.format(h.isl));
        text(cells[7], count.format(h.cost));
        long(cells[8], h.lane);
      });
  };

  const ranks = (s) => {
    const most = (value) => s.ranks.reduce((n, r) => Math.max(n, value(r)), 0);
    const far = Number.MAX_SAFE_INTEGER;
    const marksOf = (r) => [...new Set((r.busy || []).map((b) => b.above).filter((n) => n > 0 && n < far))];
    // Thresholds far above any load would flatten the bars.
    const load = most((r) => r.prefill_tokens);
    const prefill = Math.max(load, ...s.ranks.flatMap(marksOf).filter((n) => load === 0 || n <= 4 * load));
    const blocks = most((r) => r.blocks);
    set(find("prefill-scale"), prefill > 0 ? "0 to " + count.format(prefill) : "");
    const announced = s.ranks.some((r) => r.total_kv_blocks);
    set(find("blocks-scale"), announced ? "of those announced" : blocks > 0 ? "0 to " + count.format(blocks) : "");
    const now = Date.parse(s.at);
    rows(find("ranks"), s.ranks, (r) => r.rank, ["id", "", "", "", "number", "wide", "id wide"], (cells, r) => {
      text(cells[0], r.rank);
      const why = shut(r);
      const known = aboutRank(r);
      let words = why || "open";
      if (known && known.reason && why !== "busy") words += ": " + known.reason;
      if (known && known.since && why !== "busy") words += ", for " + seconds((now - Date.parse(known.since)) * 1e6);
      text(cells[1], words, why === "" ? "good" : r.unavailable ? "bad" : dead(r) ? "warn" : "calm");
      const busy = (r.busy || []).filter((b) => b.busy).map((b) => b.class);
      const all = (r.busy || []).length;
      bar(cells[2], r.prefill_tokens, prefill, marksOf(r).filter((n) => n < prefill), busy.length > 0 && busy.length === all, count.format(r.prefill_tokens));
      const blockMarks = (r.busy || []).map((b) => b.blocks_above).filter((n) => n > 0 && n < (r.total_kv_blocks || blocks));
      bar(cells[3], r.blocks, r.total_kv_blocks || blocks, [...new Set(blockMarks)], r.total_kv_blocks > 0 && r.blocks >= r.total_kv_blocks,
        count.format(r.blocks) + (r.total_kv_blocks ? " of " + count.format(r.total_kv_blocks) : ""));
      text(cells[4], count.format(r.requests));
      const of = r.peers;
      cells[4].title = of ? "of peers: " + count.format(of.requests) + " requests, " + count.format(of.prefill_tokens) + " prefill tokens, " + count.format(of.blocks) + " blocks" : "";
      long(cells[5], busy.join(", "));
      const name = known && known.name !== r.endpoint ? known.name : "";
      long(cells[6], [name, r.endpoint, r.incarnation].filter(Boolean).join(" · "));
    });
  };

  const tone = (e) => ({ rejected: "bad", expired: "bad", leaked: "bad", dropped: "warn", queued: "warn", granted: "good" })[e.kind] || "quiet";
  const peers = (s) => {
    const list = s.stats.peers || [];
    find("peers-section").hidden = list.length === 0;
    rows(find("peers"), list, (p) => p.peer, ["id", "number", "number", "number", "number"], (cells, p) => {
      long(cells[0], String(p.peer));
      [p.ranks, p.prefill_tokens, p.blocks, p.requests].forEach((n, i) => text(cells[i + 1], count.format(n)));
    });
  };

  const events = (id, list) => {
    const table = find(id);
    if (!table) return;
    rows(table, list || [], (e) => e.number, ["quiet", "", "id", "id", "id", "number", "whole"], (cells, e) => {
      text(cells[0], clock(e.time));
      text(cells[1], e.kind, tone(e));
      long(cells[2], e.request + (e.query ? " (query)" : ""));
      text(cells[3], e.class || "");
      text(cells[4], e.rank || "");
      text(cells[5], e.waited_ns >= 5e5 ? seconds(e.waited_ns) : "");
      text(cells[6], e.error || "");
    });
  };

  const show = (s) => {
    about = new Map((s.workers || []).map((w) => [String(w.worker), w]));
    const health = banner(s);
    totals(s);
    ranks(s);
    classes(s);
    heads(s);
    peers(s);
    events("failures", s.failures);
    events("recent", s.recent);
    const life = s.closed ? "closed, " : s.draining ? "shutting down, " : "";
    set(state, life + "as of " + clock(s.at));
    state.className = health;
    set(find("uptime"), "up " + seconds(s.uptime_ns));
    document.documentElement.dataset.updates = String(Number(document.documentElement.dataset.updates || 0) + 1);
  };

  let timer = 0;
  let wait = refresh;
  const look = async () => {
    clearTimeout(timer);
    const abort = new AbortController();
    const limit = setTimeout(() => abort.abort(), 10000);
    try {
      const answer = await fetch(source, { cache: "no-store", credentials: "same-origin", headers: { Accept: "application/json" }, signal: abort.signal });
      if (!answer.ok) throw new Error("answered " + answer.status);
      show(await answer.json());
      wait = refresh;
    } catch (err) {
      // What is shown is old: the dot says nothing of health any more.
      set(state, "no news: " + (err.name === "AbortError" ? "no answer in 10 s" : err.message));
      state.className = "lost";
      wait = Math.min(2 * wait, 15000);
    } finally {
      clearTimeout(limit);
    }
    schedule();
  };
  const paused = () => pause.getAttribute("aria-pressed") === "true";
  const schedule = () => {
    clearTimeout(timer);
    if (!paused() && !document.hidden) timer = setTimeout(look, wait);
  };
  pause.addEventListener("click", () => {
    pause.setAttribute("aria-pressed", String(!paused()));
    set(pause, paused() ? "Go on" : "Pause");
    if (!paused()) look();
    else schedule();
  });
  document.addEventListener("visibilitychange", () => { if (!document.hidden && !paused()) look(); });
  look();
})();
