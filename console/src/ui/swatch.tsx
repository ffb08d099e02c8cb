import type { ReactNode } from "react";
import { useShownTheme } from "../theme";
import { colourOf } from "./colours";

/** The colour of a line or bar of a chart by its index; an empty space for null, which the chart does not show. */
export function Swatch({ index }: { index: number | null }) {
  const theme = useShownTheme();
  return (
    <svg className="swatch" viewBox="0 0 12 12" aria-hidden="true">
      {index !== null && <rect width="12" height="12" rx="3" fill={colourOf(index, theme)} />}
    </svg>
  );
}

/** A text behind the colour of its line or bar. */
export function Legend({ index, children }: { index: number | null; children: ReactNode }) {
  return (
    <span className="series">
      <Swatch index={index} />
      <span>{children}</span>
    </span>
  );
}
