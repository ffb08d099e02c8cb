import { useTexts } from "../i18n";

interface Props {
  /** A change that is saved as soon as the user makes it, or submits its form. */
  change: { isPending: boolean; isSuccess: boolean };
}

/** Say that a change is being saved, then that it is saved. `Failure` says why it is not. */
export function Saved({ change }: Props) {
  const texts = useTexts();
  // Screen readers announce changes of an element that they know already.
  return <output className="fine">{change.isPending ? texts.saving : change.isSuccess && texts.saved}</output>;
}
