import { useTexts } from "../i18n";

interface Props {
  /** From 1. */
  page: number;
  pages: number;
  onPage: (page: number) => void;
}

/** Buttons to the page before and after. */
export function Pager({ page, pages, onPage }: Props) {
  const texts = useTexts();
  if (pages <= 1) return null;
  return (
    <nav className="toolbar" aria-label={texts.pager.label}>
      <button type="button" disabled={page <= 1} onClick={() => onPage(page - 1)}>
        {texts.pager.before}
      </button>
      <span>{texts.pager.page(page, pages)}</span>
      <button type="button" disabled={page >= pages} onClick={() => onPage(page + 1)}>
        {texts.pager.after}
      </button>
    </nav>
  );
}
