import type { Place } from "../places";
import type { Atlas } from "./atlas";
import type { Cluster } from "./clusters";
import { onScreen, type Size, type Spot, scaleOf, type View } from "./view";

const RADIUS = 20;
const RADIUS_OF_ONE = 8;
const RING = 5;
const TOP = -Math.PI / 2;
const ALL_AROUND = 2 * Math.PI;

/** Pixels that a letter of a country's name needs on the country. */
const LETTER = 9;

/** Return the mark below a spot of the screen. */
export function markAt(clusters: readonly Cluster[], view: View, size: Size, spot: Spot): Cluster | undefined {
  return clusters.find((cluster) => {
    const { x, y } = onScreen(view, size, cluster);
    // Fingers are wider than the mark of one plant.
    return Math.hypot(x - spot.x, y - spot.y) <= (cluster.points.length === 1 ? RADIUS_OF_ONE + 6 : RADIUS);
  });
}

/** Draw the map in the colours of the page. */
export function draw(
  canvas: HTMLCanvasElement,
  size: Size,
  view: View,
  atlas: Atlas,
  names: readonly string[],
  clusters: readonly Cluster[],
  number: (count: number) => string,
): void {
  const density = devicePixelRatio;
  // Setting the width clears the canvas.
  canvas.width = Math.round(size.width * density);
  canvas.height = Math.round(size.height * density);
  const context = canvas.getContext("2d");
  if (context === null) return;
  const style = getComputedStyle(canvas);
  const colour = (name: string) => style.getPropertyValue(`--${name}`);
  const scale = scaleOf(view);
  const corner = onScreen(view, size, { x: 0, y: 0 });

  context.setTransform(density * scale, 0, 0, density * scale, density * corner.x, density * corner.y);
  context.fillStyle = colour("surface");
  context.fill(atlas.land);
  context.lineWidth = 1 / scale;
  context.strokeStyle = colour("line-strong");
  context.stroke(atlas.land);
  context.strokeStyle = colour("line");
  context.stroke(atlas.borders);

  context.setTransform(density, 0, 0, density, 0, 0);
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.font = `12px ${style.fontFamily}`;
  context.fillStyle = colour("text-soft");
  atlas.countries.forEach((country, index) => {
    const name = names[index] ?? country.name;
    if (country.width * scale < name.length * LETTER) return;
    const { x, y } = onScreen(view, size, country);
    context.fillText(name, x, y);
  });

  for (const cluster of clusters) {
    const { x, y } = onScreen(view, size, cluster);
    if (x < -RADIUS || y < -RADIUS || x > size.width + RADIUS || y > size.height + RADIUS) continue;
    const [only] = cluster.points;
    context.translate(x, y);
    if (cluster.points.length === 1 && only !== undefined) drawPlant(context, only.place.properties, colour);
    else drawCluster(context, cluster, number, colour, style.fontFamily);
    context.translate(-x, -y);
  }
}

type Colour = (name: string) => string;

/** Draw a number in a ring whose part from the top is the share of the troubled, and below it how many they are. */
function drawCluster(
  context: CanvasRenderingContext2D,
  { points, troubled }: Cluster,
  number: (count: number) => string,
  colour: Colour,
  font: string,
): void {
  disc(context, RADIUS, colour("surface"));
  const end = TOP + (ALL_AROUND * troubled) / points.length;
  arc(context, end, TOP + ALL_AROUND, colour("good"));
  if (troubled > 0) arc(context, TOP, end, colour("bad"));
  context.fillStyle = colour("text");
  context.font = `600 12px ${font}`;
  context.fillText(number(points.length), 0, troubled > 0 ? -4 : 0);
  if (troubled === 0) return;
  context.fillStyle = colour("bad");
  context.font = `600 10px ${font}`;
  context.fillText(`▲${number(troubled)}`, 0, 8);
}

function arc(context: CanvasRenderingContext2D, start: number, end: number, colour: string): void {
  context.beginPath();
  context.arc(0, 0, RADIUS - RING / 2, start, end);
  context.lineWidth = RING;
  context.strokeStyle = colour;
  context.stroke();
}

function disc(context: CanvasRenderingContext2D, radius: number, colour: string): void {
  context.beginPath();
  context.arc(0, 0, radius, 0, ALL_AROUND);
  context.fillStyle = colour;
  context.fill();
}

/** Draw the mark of a plant: the shape that stands for its state everywhere in the console. */
function drawPlant(
  context: CanvasRenderingContext2D,
  { status, worstAlert }: Place["properties"],
  colour: Colour,
): void {
  disc(context, RADIUS_OF_ONE + 3, colour("surface"));
  context.beginPath();
  if (worstAlert !== null && worstAlert !== "INFO") {
    context.fillStyle = colour(worstAlert === "WARNING" ? "warning" : "bad");
    context.moveTo(0, -RADIUS_OF_ONE);
    context.lineTo(RADIUS_OF_ONE, RADIUS_OF_ONE - 1);
    context.lineTo(-RADIUS_OF_ONE, RADIUS_OF_ONE - 1);
  } else if (status === "OFFLINE") {
    context.fillStyle = colour("bad");
    context.rect(1 - RADIUS_OF_ONE, 1 - RADIUS_OF_ONE, 2 * RADIUS_OF_ONE - 2, 2 * RADIUS_OF_ONE - 2);
  } else {
    context.fillStyle = colour(status === "ONLINE" ? "good" : "text-soft");
    context.arc(0, 0, RADIUS_OF_ONE - 1, 0, ALL_AROUND);
    // A ring: what lies inside both circles is outside of the shape.
    if (status === "UNKNOWN") context.arc(0, 0, RADIUS_OF_ONE - 4, 0, ALL_AROUND);
  }
  context.fill("evenodd");
}
