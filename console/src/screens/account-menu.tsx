import { type ReactNode, Suspense } from "react";
import { lazyPart } from "../ui/lazy-part";
import { Picker } from "../ui/picker";

const AccountPanel = lazyPart(async () => (await import("./account-panel")).AccountPanel);

interface Props {
  /** Of the user. */
  name: string;
  /** What the user may do. */
  rights: string;
  /** Further links. */
  children?: ReactNode;
}

/** A button with the name of the user, which opens a panel. */
export function AccountMenu({ name, rights, children }: Props) {
  return (
    <Picker
      className="account"
      label={
        <>
          {name}
          <span className="fine">{rights}</span>
        </>
      }
    >
      <Suspense>
        <AccountPanel>{children}</AccountPanel>
      </Suspense>
    </Picker>
  );
}
