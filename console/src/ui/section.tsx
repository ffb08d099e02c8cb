import { type ReactNode, useId } from "react";

interface Props {
  title: string;
  isCard?: boolean;
  /** Fields and buttons beside the heading. */
  tools?: ReactNode;
  children: ReactNode;
}

/** A part of a page under a heading of its own. */
export function Section({ title, isCard = false, tools, children }: Props) {
  const id = useId();
  return (
    <section className={isCard ? "card" : "block"} aria-labelledby={id}>
      {tools === undefined ? (
        <h2 id={id}>{title}</h2>
      ) : (
        <div className="toolbar">
          <h2 id={id} className="grow">
            {title}
          </h2>
          {tools}
        </div>
      )}
      {children}
    </section>
  );
}
