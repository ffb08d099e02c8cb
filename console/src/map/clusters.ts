import { isTroubled, type Place } from "../places";
import type { Spot } from "./view";

/** Pixels. Marks that are nearer to each other become one. */
const NEAR = 44;

/** A plant at its spot of the map. */
export interface Point extends Spot {
  place: Place;
}

/** Plants that are shown as one mark, in the middle between them. */
export interface Cluster extends Spot {
  points: Point[];
  troubled: number;
}

/**
 * Return the marks of a map.
 *
 * The map is divided into squares that do not depend on what part of it is shown, so that a mark stays the same while the map is
 * moved. Marks of neighbouring squares that would overlap become one, the larger ones first.
 *
 * @param scale Pixels of a unit of the map.
 */
export function clustersOf(points: readonly Point[], scale: number): Cluster[] {
  const side = NEAR / scale;
  const squares = new Map<string, Point[]>();
  for (const point of points) {
    const key = keyOf(Math.floor(point.x / side), Math.floor(point.y / side));
    const square = squares.get(key);
    if (square === undefined) squares.set(key, [point]);
    else square.push(point);
  }
  const found = [...squares.values()].map(clusterOf).sort((a, b) => b.points.length - a.points.length);
  const kept = new Map<string, Cluster[]>();
  for (const cluster of found) {
    const column = Math.floor(cluster.x / side);
    const row = Math.floor(cluster.y / side);
    const larger = neighbours(kept, column, row).find(({ x, y }) => Math.hypot(x - cluster.x, y - cluster.y) < side);
    if (larger === undefined) {
      const key = keyOf(column, row);
      kept.set(key, [...(kept.get(key) ?? []), cluster]);
    } else {
      // It stays where it is: moved, it could overlap marks that are compared already.
      larger.points = [...larger.points, ...cluster.points];
      larger.troubled += cluster.troubled;
    }
  }
  return [...kept.values()].flat();
}

function keyOf(column: number, row: number): string {
  return `${column} ${row}`;
}

function neighbours(kept: ReadonlyMap<string, Cluster[]>, column: number, row: number): Cluster[] {
  const offsets = [-1, 0, 1];
  return offsets.flatMap((right) => offsets.flatMap((down) => kept.get(keyOf(column + right, row + down)) ?? []));
}

function clusterOf(points: Point[]): Cluster {
  const sum = points.reduce((all, { x, y }) => ({ x: all.x + x, y: all.y + y }), { x: 0, y: 0 });
  return {
    x: sum.x / points.length,
    y: sum.y / points.length,
    points,
    troubled: points.filter(({ place }) => isTroubled(place)).length,
  };
}
