import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { type KeyboardEvent, useEffect, useState } from "react";
import { foundPlantsQuery } from "../groups";
import { useTexts } from "../i18n";
import { menuOf } from "../menu";
import { membersQuery } from "../people";
import { mayAct } from "../session";
import { Dialog } from "../ui/dialog";
import { Failure } from "../ui/failure";

const route = getRouteApi("/inside/o/$slug");

/** Open a search over plants, people and pages by a button or Ctrl-K. */
export function Finder() {
  const texts = useTexts();
  const [isOpen, setIsOpen] = useState(false);
  useEffect(() => {
    const onKey = (event: globalThis.KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        setIsOpen(true);
      }
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, []);
  return (
    <>
      <button type="button" className="finder" onClick={() => setIsOpen(true)} aria-keyshortcuts="Control+K">
        {texts.finder.open} <kbd>{texts.finder.keys}</kbd>
      </button>
      {isOpen && <Found onClose={() => setIsOpen(false)} />}
    </>
  );
}

function Found({ onClose }: { onClose: () => void }) {
  const texts = useTexts();
  const { user, organization } = route.useRouteContext();
  const slug = organization.slug;
  const [text, setText] = useState("");
  const q = text.trim();
  const plants = useQuery(foundPlantsQuery(organization.id, q));
  const people = useQuery({
    ...membersQuery(organization.id, { q }),
    enabled: q !== "" && mayAct(user, organization, "ORG_ADMIN"),
  });
  const pages = menuOf(texts, user, organization).filter(({ label }) => label.toLowerCase().includes(q.toLowerCase()));
  const nothing = pages.length === 0 && plants.data?.data.length === 0 && !people.data?.data.length;
  return (
    <Dialog title={texts.finder.title} onClose={onClose}>
      {/* biome-ignore lint/a11y/noStaticElementInteractions: the arrow keys are a short cut; Tab reaches every link */}
      <div className="form" onKeyDown={moveFocus}>
        <input
          aria-label={texts.finder.text}
          placeholder={texts.finder.text}
          value={text}
          maxLength={100}
          onChange={(event) => setText(event.target.value)}
        />
        <Failure error={plants.error ?? people.error} />
        <ul className="found">
          {plants.data?.data.map(({ id, name, serialNumber }) => (
            <li key={id}>
              <Link to="/o/$slug/plants/$plantId" params={{ slug, plantId: id }} onClick={onClose}>
                {name} <span className="fine">{serialNumber}</span>
              </Link>
            </li>
          ))}
          {people.data?.data.map(({ id, user: { name, email } }) => (
            <li key={id}>
              <Link to="/o/$slug/people" params={{ slug }} search={{ q: email }} onClick={onClose}>
                {name} <span className="fine">{email}</span>
              </Link>
            </li>
          ))}
          {pages.map(({ to, label }) => (
            <li key={to}>
              <Link to={to} params={{ slug }} onClick={onClose}>
                {label} <span className="fine">{texts.finder.page}</span>
              </Link>
            </li>
          ))}
        </ul>
        {nothing && <p className="fine">{texts.finder.none}</p>}
      </div>
    </Dialog>
  );
}

/** Move the focus between the field and the links by the arrow keys; Enter in the field opens the first link. */
function moveFocus(event: KeyboardEvent<HTMLElement>) {
  const all = [...event.currentTarget.querySelectorAll<HTMLElement>("input, a")];
  const at = all.indexOf(document.activeElement as HTMLElement);
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step !== undefined) {
    event.preventDefault();
    all[Math.min(Math.max(at + step, 0), all.length - 1)]?.focus();
  } else if (event.key === "Enter" && at === 0) {
    event.preventDefault();
    all[1]?.click();
  }
}
