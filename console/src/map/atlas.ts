import { queryOptions } from "@tanstack/react-query";
import { type GeoPermissibleObjects, geoMercator, geoPath } from "d3-geo";
import { feature, mesh } from "topojson-client";
import type { GeometryCollection, Topology } from "topojson-specification";
import outlines from "world-atlas/countries-50m.json?url";
import { send } from "../api/client";
import type { Place } from "../places";
import type { Point } from "./clusters";
import { WORLD } from "./view";

type World = Topology<{ countries: GeometryCollection<{ name: string }>; land: GeometryCollection }>;

/** The outlines of the world, in units of the map. */
export interface Atlas {
  land: Path2D;
  borders: Path2D;
  countries: Country[];
}

interface Country {
  /** Number of ISO 3166-1, such as 203; null for a country that has none. */
  number: string | null;
  /** English name. */
  name: string;
  /** The middle of its largest part, and how wide that is. */
  x: number;
  y: number;
  width: number;
}

const PROJECTION = geoMercator()
  .scale(WORLD / (2 * Math.PI))
  .translate([WORLD / 2, WORLD / 2]);

/** The outlines of all countries: a file of the console, which is read once. */
export const atlasQuery = queryOptions({
  queryKey: ["atlas"],
  queryFn: async ({ signal }) => {
    const response = await send(new Request(outlines, { signal }));
    return atlasOf((await response.json()) as World);
  },
  staleTime: Number.POSITIVE_INFINITY,
  // Shapes of a canvas: their structure cannot be compared with that of an earlier response.
  structuralSharing: false,
});

/** Return the plants at their spots of the map; without those near the poles, which the map does not show. */
export function pointsOf(places: readonly Place[]): Point[] {
  return places.flatMap((place) => {
    const [longitude = 0, latitude = 0] = place.geometry.coordinates;
    const [x, y] = PROJECTION([longitude, latitude]) ?? [Number.NaN, Number.NaN];
    return y >= 0 && y <= WORLD ? [{ x, y, place }] : [];
  });
}

function atlasOf(world: World): Atlas {
  const { countries, land } = world.objects;
  const path = geoPath(PROJECTION);
  return {
    land: shapeOf(feature(world, land)),
    borders: shapeOf(mesh(world, countries, (one, other) => one !== other)),
    countries: feature(world, countries).features.map(({ id, properties, geometry }) => {
      const parts: GeoPermissibleObjects[] =
        geometry.type === "MultiPolygon"
          ? geometry.coordinates.map((coordinates) => ({ type: "Polygon", coordinates }))
          : [geometry];
      const largest = parts.reduce((most, part) => (path.area(part) > path.area(most) ? part : most));
      const [[left], [right]] = path.bounds(largest);
      const [x, y] = path.centroid(largest);
      return { number: id === undefined ? null : String(id), name: properties.name, x, y, width: right - left };
    }),
  };
}

function shapeOf(object: GeoPermissibleObjects): Path2D {
  const shape = new Path2D();
  // d3 never calls `beginPath`, but its type requires the method.
  geoPath(PROJECTION, Object.assign(shape, { beginPath: () => undefined }))(object);
  return shape;
}

/** Return the name of a country in a language; the English one if the browser knows none. */
export function countryName({ number, name }: Country, locale: string): string {
  if (number === null || !/^\d{3}$/.test(number)) return name;
  // Browsers name regions by letters, which replace the number: 203 is CZ.
  const { region } = new Intl.Locale(`und-${number}`);
  return (region && new Intl.DisplayNames([locale], { type: "region", fallback: "none" }).of(region)) ?? name;
}
