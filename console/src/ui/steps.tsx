/** The steps of a wizard; `current` counts from 1. */
export function Steps({ names, current }: { names: readonly string[]; current: number }) {
  return (
    <ol className="wizard">
      {names.map((name, index) => (
        <li key={name} aria-current={index + 1 === current ? "step" : undefined}>
          {name}
        </li>
      ))}
    </ol>
  );
}
