"use strict";
// The page is whole without this: it adds the buttons that copy commands, the search, and
// opens what is folded where somebody follows a link to it or prints the page.
const numbers = new Map();
for (const command of document.querySelectorAll(".command")) {
  const card = command.closest("article"), number = (numbers.get(card) || 0) + 1;
  numbers.set(card, number);
  const text = command.querySelector("pre");
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Copy";
  button.setAttribute("aria-label", "Copy the command " + card.id.slice(1) + "." + number);
  button.addEventListener("click", async () => {
    let done = "Copied";
    try {
      await navigator.clipboard.writeText(text.textContent);
    } catch {
      getSelection().selectAllChildren(text);
      done = document.execCommand("copy") ? "Copied" : "Press Ctrl+C";
    }
    button.textContent = done;
    document.getElementById("told").textContent = done;
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  command.append(button);
}

const search = document.getElementById("search");
if (search) {
  const words = document.getElementById("words"), severity = document.getElementById("severity");
  const links = new Map([...document.querySelectorAll("nav a")].map(a => [a.hash.slice(1), a.closest("li")]));
  const own = card => [...card.children].filter(c => !c.matches("details.follow")).map(c => c.textContent).join(" ").toLowerCase();
  const causes = [...document.querySelectorAll("main > article")].map(card => ({
    card, text: own(card), fold: card.querySelector(":scope > details.follow"),
    follow: [...card.querySelectorAll("article")].map(one => ({ card: one, text: own(one) })),
  }));
  const filter = () => {
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = one => (!severity.value || one.card.classList.contains(severity.value)) && wanted.every(w => one.text.includes(w));
    let shown = 0, all = 0;
    for (const cause of causes) {
      const found = cause.follow.filter(fits), self = fits(cause);
      for (const one of cause.follow) one.card.hidden = !self && !found.includes(one);
      cause.card.hidden = !self && !found.length;
      if (cause.fold && wanted.length) cause.fold.open = found.length > 0;
      const link = links.get(cause.card.id);
      if (link) link.hidden = cause.card.hidden;
      shown += (self ? 1 : 0) + found.length;
      all += 1 + cause.follow.length;
    }
    document.getElementById("shown").textContent = shown === all ? "" : shown + " of " + all + " findings";
  };
  words.addEventListener("input", filter);
  severity.addEventListener("input", filter);
  search.hidden = false;
}

const reveal = () => {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  for (let e = target; e; e = e.parentElement) if (e.tagName === "DETAILS") e.open = true;
  if (target) target.scrollIntoView();
};
addEventListener("hashchange", reveal);
reveal();

let closed = [];
addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details:not([open])")];
  for (const fold of closed) fold.open = true;
});
addEventListener("afterprint", () => {
  for (const fold of closed) fold.open = false;
});
