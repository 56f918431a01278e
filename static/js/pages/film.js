/** Plays the film of a DP-SGD step in the place of its still picture, from the start at each press. */

const picture = document.querySelector("[data-film]");
let plays = 0;

document.querySelector("[data-film-play]").addEventListener("click", (event) => {
  event.preventDefault();
  plays += 1;
  picture.src = `${picture.dataset.film}#${plays}`; // another address starts the animation again
  event.currentTarget.textContent = "Play again";
});
