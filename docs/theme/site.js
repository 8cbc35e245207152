// A table that is wider than the page scrolls; with this it does so by keyboard too.
window.addEventListener("load", () => {
  for (const part of document.querySelectorAll(".md-typeset__scrollwrap")) part.tabIndex = 0;
});
