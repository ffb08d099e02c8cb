import { useTexts } from "../i18n";
import { isLastPage } from "../searches/values";

interface Props {
  /** Of the page that is shown; undefined until one is loaded. */
  meta: { page: number; totalPages: number } | undefined;
  /** Called with the number of a page, from 1. */
  onPage: (page: number) => void;
}

/** Buttons to the page before and after, if there are several. The page of a link may be after the last one. */
export function Pager({ meta, onPage }: Props) {
  const texts = useTexts();
  if (meta === undefined || Math.max(meta.page, meta.totalPages) <= 1) return null;
  const { page, totalPages } = meta;
  return (
    <nav className="toolbar" aria-label={texts.pager.label}>
      <button type="button" disabled={page <= 1} onClick={() => onPage(Math.max(1, Math.min(page - 1, totalPages)))}>
        {texts.pager.before}
      </button>
      <span>{texts.pager.page(page, totalPages)}</span>
      <button type="button" disabled={isLastPage(meta)} onClick={() => onPage(page + 1)}>
        {texts.pager.after}
      </button>
    </nav>
  );
}
