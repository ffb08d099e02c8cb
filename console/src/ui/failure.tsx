import { ApiError } from "../api/error";
import { useTexts } from "../i18n";

/** Say why something failed: the service's message, its details, and the id by which the request is found in the service's log. */
export function Failure({ error }: { error: Error | null }) {
  const texts = useTexts();
  if (error === null) return null;
  const known = error instanceof ApiError ? error : null;
  return (
    <div className="failure" role="alert">
      <strong>{texts.failed}</strong>
      <p>{known?.code === "UNREACHABLE" ? texts.unreachable : error.message}</p>
      {known && known.details.length > 0 && (
        <ul>
          {known.details.map((detail) => (
            <li key={detail}>{detail}</li>
          ))}
        </ul>
      )}
      {known?.requestId && (
        <p className="fine">
          {texts.requestId} <code>{known.requestId}</code>
        </p>
      )}
    </div>
  );
}
