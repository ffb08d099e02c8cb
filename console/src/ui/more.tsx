import { useTexts } from "../i18n";

interface Props {
  /** A query whose pages are read one after another. */
  list: { hasNextPage: boolean; isFetchingNextPage: boolean; fetchNextPage: () => unknown };
}

/** A button that shows the next page of a list below those that are shown, if there is one. */
export function More({ list }: Props) {
  const texts = useTexts();
  if (!list.hasNextPage) return null;
  return (
    <div className="toolbar">
      <button type="button" onClick={() => list.fetchNextPage()} disabled={list.isFetchingNextPage}>
        {texts.groups.more}
      </button>
    </div>
  );
}
