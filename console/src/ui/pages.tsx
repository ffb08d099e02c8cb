import { Link, useRouter } from "@tanstack/react-router";
import { ApiError } from "../api/error";
import { useTexts } from "../i18n";
import { Failure } from "./failure";

export function LoadingPage() {
  return <output className="page-message">{useTexts().loading}</output>;
}

export function NotFoundPage() {
  const texts = useTexts();
  return (
    <main className="page-message">
      <p>{texts.notFound}</p>
      <Link to="/">{texts.toFleet}</Link>
    </main>
  );
}

/** What is shown instead of a screen that could not be loaded. */
export function ErrorPage({ error }: { error: unknown }) {
  const texts = useTexts();
  const router = useRouter();
  return (
    <main className="page-message">
      <Failure error={error instanceof Error ? error : new Error(String(error))} />
      {/* A file of the page that could not be loaded may belong to a release that another one has replaced. */}
      <button type="button" onClick={() => (error instanceof ApiError ? router.invalidate() : location.reload())}>
        {texts.retry}
      </button>
    </main>
  );
}
