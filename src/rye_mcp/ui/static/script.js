// The whole script of the page: it opens the session, shows what changes, and follows what a run writes.
// It never makes markup of text: documents come from this server, which escapes; events are put in as text.
"use strict";

const KEPT_CHARACTERS = 400000; // of what a run writes, on the screen

function open_session(place) {
  const secret = location.hash.slice(1);
  history.replaceState(null, "", location.pathname);
  if (!secret) {
    place.textContent = "The address of this page is what rye ui has printed. To get one: rye ui";
    return;
  }
  const request = new XMLHttpRequest();
  request.responseType = "document"; // the first view
  request.open("POST", "/session");
  request.onload = () => {
    if (request.status === 403) place.textContent = place.dataset.used;
    else if (is_view(request)) enter(request.response);
    else place.textContent = `rye ui could not open: ${request.status} ${request.statusText}. ${place.dataset.failed}`;
  };
  request.onerror = () => (place.textContent = "rye ui has ended. To start it: rye ui");
  request.send(secret);
}

// A refusal is a view too: it says what is wrong, and leads to the other ones.
function is_view(request) {
  return request.response !== null && request.response.getElementById("content") !== null;
}

function enter(view) {
  view.querySelectorAll("script").forEach((each) => each.remove()); // it is running already
  history.replaceState(null, "", "/runs");
  document.title = view.title;
  document.body.replaceWith(document.importNode(view.body, true));
  begin();
}

// --- what changes ---

let loading = false, again = false;

function load() {
  if (loading) { again = true; return; }
  loading = true;
  const request = new XMLHttpRequest();
  request.responseType = "document"; // parsed, and nothing of it is run
  request.open("GET", location.href);
  request.onloadend = () => {
    loading = false;
    if (request.status === 200 && request.response) replace_parts(request.response);
    else if (request.status) tell(`This may be out of date. rye ui answered: ${request.status} ${request.statusText}`);
    if (again) { again = false; load(); }
  };
  request.send();
}

function replace_parts(fresh) {
  for (const part of document.querySelectorAll("[data-part]")) {
    const other = fresh.getElementById(part.id);
    if (!other || other.outerHTML === part.outerHTML || is_in_use(part)) continue;
    const where = address_in(part, document.activeElement);
    const open = [...part.querySelectorAll("details")].map((each) => each.open);
    part.replaceChildren(...[...other.childNodes].map((each) => document.importNode(each, true)));
    part.querySelectorAll("details").forEach((each, number) => { each.open = open[number] || false; });
    if (where) for (const link of part.querySelectorAll("a")) if (link.getAttribute("href") === where) { link.focus(); break; }
  }
}

function is_in_use(part) {
  const focused = document.activeElement;
  const typing = part.contains(focused) && ["INPUT", "SELECT", "BUTTON"].includes(focused.tagName);
  const selection = getSelection();
  return typing || (selection && !selection.isCollapsed && part.contains(selection.anchorNode));
}

function address_in(part, element) {
  return element && part.contains(element) ? element.getAttribute("href") : null;
}

// --- what a run writes ---

function append(place, facts) {
  const is_at_end = place.scrollHeight - place.scrollTop - place.clientHeight < 40;
  if (facts.skipped) place.append(`\n[${facts.skipped.toLocaleString("en")} bytes are not shown]\n`);
  place.append(facts.text);
  place.shown = (place.shown || 0) + facts.text.length;
  while (place.shown > KEPT_CHARACTERS && place.childNodes.length > 1) {
    place.shown -= place.firstChild.textContent.length;
    place.firstChild.remove();
  }
  if (is_at_end) place.scrollTop = place.scrollHeight;
}

function tell(text) {
  const place = document.getElementById("told");
  if (place) place.textContent = text;
}

// A page that nobody looks at has no connection: a browser has few for each server.
function while_visible(address, listen) {
  let source = null;
  const turn = () => {
    if (document.hidden && source) { source.close(); source = null; }
    if (!document.hidden && !source) { source = new EventSource(address); listen(source); }
  };
  document.addEventListener("visibilitychange", turn);
  turn();
}

function follow_changes(address) {
  while_visible(address, (source) => {
    source.addEventListener("changed", load);
    source.onopen = () => tell("");
    source.onerror = () => tell("rye ui does not answer");
  });
}

function follow_output(place) {
  while_visible(place.dataset.follow, (source) => {
    place.textContent = "";
    place.shown = 0;
    source.addEventListener("output", (event) => append(place, JSON.parse(event.data)));
    source.addEventListener("over", () => { source.close(); location.reload(); });
    source.onerror = () => tell("rye ui does not answer");
    source.onopen = () => { place.textContent = ""; place.shown = 0; tell(""); };
  });
}

function count_on() {
  for (const each of document.querySelectorAll("[data-since]")) {
    const seconds = Math.max(0, (Date.now() - Number(each.dataset.since)) / 1000);
    const minutes = Math.floor(seconds / 60);
    each.textContent = minutes < 1 ? `${Math.floor(seconds)} s` : `${minutes} min ${Math.floor(seconds % 60)} s`;
  }
}

function begin() {
  const opening = document.getElementById("opening");
  const content = document.getElementById("content");
  if (opening) open_session(opening);
  if (content && content.dataset.live) follow_changes(content.dataset.live);
  for (const place of document.querySelectorAll("[data-follow]")) follow_output(place);
}

begin();
setInterval(count_on, 1000);
