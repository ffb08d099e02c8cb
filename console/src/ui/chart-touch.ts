import type uPlot from "uplot";

const NOTHING = { left: 0, width: 0, top: 0, height: 0 };

/** Let a finger select a part of the time axis, as a mouse does. A finger that moves up or down scrolls the page. */
export function touchSelection(): uPlot.Plugin {
  return {
    hooks: {
      init: ({ over, select, setSelect }) => {
        over.classList.add("touched");
        let start: number | null = null;
        const positionOf = ({ clientX }: PointerEvent) =>
          Math.min(Math.max(0, clientX - over.getBoundingClientRect().left), over.clientWidth);
        over.addEventListener("pointerdown", (event) => {
          if (event.pointerType !== "touch" || !event.isPrimary) return;
          start = positionOf(event);
          setSelect(NOTHING, false);
        });
        over.addEventListener("pointermove", (event) => {
          if (start === null || !event.isPrimary) return;
          const end = positionOf(event);
          const selected = {
            left: Math.min(start, end),
            width: Math.abs(end - start),
            top: 0,
            height: over.clientHeight,
          };
          setSelect(selected, false);
        });
        over.addEventListener("pointerup", (event) => {
          if (start === null || !event.isPrimary) return;
          start = null;
          setSelect(select);
        });
        over.addEventListener("pointercancel", () => {
          if (start === null) return;
          start = null;
          setSelect(NOTHING, false);
        });
      },
    },
  };
}
