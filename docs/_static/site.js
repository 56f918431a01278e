// The website serves these pages at /docs/. Opened in another place, such as from a
// folder, they have no website to lead to, and the link stays hidden.
const documentation = new URL(document.documentElement.dataset.content_root, location);
if (documentation.protocol !== "file:" && documentation.pathname === "/docs/") {
  for (const link of document.querySelectorAll(".site-link")) {
    link.href = new URL("..", documentation).href;
    link.hidden = false;
  }
}
