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

  // shut says what keeps a rank from new work, "" for nothing. It is busy if it is
  // for all classes that can wait.
  const shut = (r) => {
    const overloaded = r.overloaded && (r.aside_until ? "aside until " + clock(r.aside_until) : "overloaded");
    const why = [r.draining && "draining", r.unavailable && "unavailable", overloaded].filter(Boolean);
    if (why.length === 0 && r.busy && r.busy.every((b) => b.busy)) why.push("busy");
    return why.join(", ");
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
    const rejected = Object.entries(t.rejected || {}).sort((a, b) => b[1] - a[1]);
    const list = [
      ["waiting", count.format(t.waiting), ""],
      ["booked", count.format(t.live), ""],
      ["ranks open", open + " of " + s.ranks.length, busy > 0 ? busy + " busy" : ""],
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
      set(tile.lastElementChild.firstElementChild, value);
      set(tile.lastElementChild.lastElementChild, note);
    });
  };

  const classes = (s) => rows(find("classes"), s.classes, (c) => c.name,
    ["id", "", "number", "number", "number", "number", "number", "number", "wide"], (cells, c) => {
      text(cells[0], c.name);
      text(cells[1], c.order);
      text(cells[2], count.format(c.pending));
      text(cells[3], count.format(c.tokens));
      text(cells[4], count.format(c.cached_tokens));
      text(cells[5], c.pending > 0 ? seconds(c.oldest_ns) : "");
      text(cells[6], count.format(c.deficit));
      text(cells[7], count.format(c.quantum));
      const limits = (c.limits || []).map((l) => l.limit + " " + count.format(l.usage) + " of " + count.format(l.bound));
      if (c.endpoint_until) limits.unshift("without an endpoint until " + clock(c.endpoint_until));
      if (c.never_queues) long(cells[8], "never queues");
      else if (!c.can_queue && !c.endpoint_until) long(cells[8], "no busy threshold: nobody waits");
      else long(cells[8], limits.join(", ") || "none");
      cells[8].classList.toggle("bad", c.can_queue && !c.never_queues && (c.limits || []).some((l) => l.usage >= l.bound));
      cells[8].classList.toggle("quiet", !c.can_queue);
    });

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
    rows(find("ranks"), s.ranks, (r) => r.rank, ["id", "", "", "", "number", "wide", "id wide"], (cells, r) => {
      text(cells[0], r.rank);
      const why = shut(r);
      text(cells[1], why || "open", why === "" ? "good" : r.overloaded ? "bad" : "warn");
      const busy = (r.busy || []).filter((b) => b.busy).map((b) => b.class);
      const all = (r.busy || []).length;
      bar(cells[2], r.prefill_tokens, prefill, marksOf(r).filter((n) => n < prefill), busy.length > 0 && busy.length === all, count.format(r.prefill_tokens));
      const blockMarks = (r.busy || []).map((b) => b.blocks_above).filter((n) => n > 0 && n < (r.total_kv_blocks || blocks));
      bar(cells[3], r.blocks, r.total_kv_blocks || blocks, [...new Set(blockMarks)], r.total_kv_blocks > 0 && r.blocks >= r.total_kv_blocks,
        count.format(r.blocks) + (r.total_kv_blocks ? " of " + count.format(r.total_kv_blocks) : ""));
      text(cells[4], count.format(r.requests));
      long(cells[5], busy.join(", "));
      long(cells[6], [r.endpoint, r.incarnation].filter(Boolean).join(" · "));
    });
  };

  const tone = (e) => ({ rejected: "bad", expired: "bad", leaked: "bad", dropped: "warn", queued: "warn", granted: "good" })[e.kind] || "quiet";
  const recent = (s) => {
    const table = find("recent");
    if (!table) return;
    rows(table, s.recent, (e) => e.number, ["quiet", "", "id", "id", "id", "number", "whole"], (cells, e) => {
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
    totals(s);
    classes(s);
    heads(s);
    ranks(s);
    recent(s);
    const life = s.closed ? "closed, " : s.draining ? "shutting down, " : "";
    set(state, life + "as of " + clock(s.at));
    state.className = "live";
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
