// Shows the price of a question while it is typed, and an answer at its deadline. Pages read without it.
"use strict";

const parse = (text) => new DOMParser().parseFromString(text, "text/html");

function livePrice(form) {
  let timer = 0;
  let asking = null;
  const panel = () => document.getElementById("before");
  async function price() {
    asking?.abort();
    asking = new AbortController();
    panel().classList.add("busy");
    try {
      const response = await fetch("/ask", {
        method: "POST",
        body: new URLSearchParams(new FormData(form)),
        signal: asking.signal,
      });
      const told = parse(await response.text()).getElementById("before");
      if (told === null) {
        say(panel(), "The session has ended. Log in again in another tab; what you typed stays here.");
        return;
      }
      told.querySelectorAll("[autofocus]").forEach((each) => each.removeAttribute("autofocus"));
      // Someone who is reading or about to press a button in the panel keeps their place.
      if (!panel().contains(document.activeElement)) panel().replaceChildren(...told.childNodes);
    } catch (failure) {
      if (failure.name !== "AbortError") say(panel(), "The service did not answer. What you typed stays here.");
    } finally {
      panel().classList.remove("busy");
    }
  }
  form.addEventListener("input", (event) => {
    if (panel().contains(event.target)) return;
    // A price that is no longer that of the question is not for sale.
    panel().querySelectorAll(".pay").forEach((each) => each.setAttribute("aria-disabled", "true"));
    if (event.target.id === "error") document.getElementById("goal-error").checked = true;
    if (event.target.id === "epsilon") document.getElementById("goal-epsilon").checked = true;
    clearTimeout(timer);
    timer = setTimeout(price, 400);
  });
  form.addEventListener("submit", () => {
    clearTimeout(timer);
    asking?.abort();
  });
}

function say(panel, words) {
  panel.querySelector("[role=status]").textContent = words;
}

function showAtDeadline(line) {
  const start = performance.now();
  const seconds = Number(line.dataset.seconds);
  const timer = setInterval(async () => {
    if (performance.now() - start < 1000 * seconds + 300) return;
    clearInterval(timer);
    try {
      const main = parse(await (await fetch(location.pathname)).text()).querySelector("main");
      document.querySelector("main").replaceChildren(...main.childNodes);
      document.title = document.querySelector("h1").textContent;
    } catch {
      line.textContent = "The service did not answer; look again.";
    }
    const next = document.getElementById("wait");
    if (next) showAtDeadline(next);
    else document.querySelector("main").focus();
  }, 200);
}

const ask = document.querySelector("form[data-live]");
if (ask) livePrice(ask);
const wait = document.getElementById("wait");
if (wait) showAtDeadline(wait);
const trouble = document.querySelector(".trouble[autofocus]");
if (trouble) trouble.focus();
