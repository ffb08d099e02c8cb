import type uPlot from "uplot";
import { converted } from "../format/quantities";
import type { Severity } from "../severities";

/** Something that happened at a time. */
export interface Mark {
  kind: "alert" | "command";
  /** In ISO 8601. */
  time: string;
  /** What happened; shown on hover. */
  label: string;
  /** Of an alert. */
  severity?: Severity;
  /** Whether the label is written beside the mark too. */
  isLabelled?: boolean;
}

/** A value that is drawn across the chart, such as a threshold. */
export interface Level {
  value: number;
  /** Null: it is a plain number, drawn for every unit. */
  unit: string | null;
  label: string;
}

/** Return the values of the levels in a unit, without those that cannot be converted. */
export function levelsIn(levels: readonly Level[], unit: string): number[] {
  return levels.map((level) => converted(level.value, level.unit, unit)).filter((value) => value !== undefined);
}

/** Place marks on the time axis and lines at levels, as elements over the plot, which browsers show texts of on hover. */
export function overlay(marks: readonly Mark[], levels: readonly Level[]): uPlot.Plugin {
  const place: (() => void)[] = [];
  const add = (plot: uPlot, className: string, label: string): HTMLElement => {
    const element = document.createElement("span");
    element.className = className;
    element.title = label;
    plot.over.append(element);
    return element;
  };
  return {
    hooks: {
      init: (plot) => {
        for (const { kind, time, label, severity, isLabelled } of marks) {
          const element = add(plot, `event ${kind} ${severity ?? ""}`, label);
          if (isLabelled) element.textContent = label;
          place.push(() => {
            // The axis ends with the start of the last bucket; what happened in it is shown at the edge.
            const left = Math.min(plot.valToPos(Date.parse(time) / 1000, "x"), plot.over.clientWidth);
            element.style.left = `${Math.max(0, left)}px`;
            element.classList.toggle("before", left > plot.over.clientWidth / 2);
          });
        }
        for (const scale of Object.keys(plot.scales).filter((key) => key.startsWith("y-"))) {
          for (const level of levels) {
            const value = converted(level.value, level.unit, scale.slice(2));
            if (value === undefined) continue;
            const element = add(plot, "level", level.label);
            element.textContent = level.label;
            place.push(() => {
              element.style.top = `${plot.valToPos(value, scale)}px`;
            });
          }
        }
      },
      draw: () => {
        for (const one of place) one();
      },
    },
  };
}
