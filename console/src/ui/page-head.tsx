import type { ReactNode } from "react";

interface Props {
  title: string;
  /** The organisation that the page is about, or the product. */
  of: string;
  /** Links and buttons beside the heading. */
  children?: ReactNode;
}

/** The heading of a page, which is also the title of its tab. */
export function PageHead({ title, of, children }: Props) {
  return (
    <>
      <title>{`${title} · ${of}`}</title>
      {children === undefined ? (
        <h1>{title}</h1>
      ) : (
        <div className="toolbar">
          <h1 className="grow">{title}</h1>
          <div className="toolbar">{children}</div>
        </div>
      )}
    </>
  );
}
