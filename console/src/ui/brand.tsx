/** The sign and the name of the product. */
export function Brand() {
  return (
    <p className="brand">
      <svg className="mark" viewBox="0 0 32 32" aria-hidden="true">
        <rect width="32" height="32" rx="7" />
        <path d="M18 4 8 18h7l-1 10 10-14h-7z" />
      </svg>{" "}
      Gridfleet
    </p>
  );
}
