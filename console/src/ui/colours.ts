/** Colours that people with each kind of colour blindness can distinguish (Okabe and Ito), for light and dark grounds. */
const COLOURS = {
  light: ["#0072b2", "#b85500", "#007a5e", "#9b4f86", "#7a6a00", "#4d4d4d"],
  dark: ["#56b4e9", "#e69f00", "#29c79d", "#e08fc0", "#f0e442", "#c9c9c9"],
};

/** Return the colour of a line or bar of a chart by its index. */
export function colourOf(index: number, theme: "light" | "dark"): string {
  const colours = COLOURS[theme];
  return colours[index % colours.length] as string;
}
