import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type KeyboardEvent, useState } from "react";
import { foundPlantsQuery } from "../groups";
import { useTexts } from "../i18n";
import { adminPagesOf, pagesOf } from "../pages";
import { membersQuery } from "../people";
import { mayAct, type SessionOrganization, type SessionUser } from "../session";
import { Dialog } from "../ui/dialog";
import { Failure } from "../ui/failure";

export interface FinderProps {
  user: SessionUser;
  /** Whose plants, people and pages are found, besides the pages about the whole service. */
  organization?: SessionOrganization;
}

/** A search over plants, people and pages. */
export function FinderDialog({ user, organization, onClose }: FinderProps & { onClose: () => void }) {
  const texts = useTexts();
  const [text, setText] = useState("");
  const q = text.trim();
  const slug = organization?.slug ?? "";
  const labels = organization === undefined ? texts.finder.pages : texts.finder;
  const isFound = ({ label }: { label: string }) => label.toLowerCase().includes(q.toLowerCase());
  const plants = useQuery({
    ...foundPlantsQuery(organization?.id ?? "", q),
    enabled: q !== "" && organization !== undefined,
  });
  const people = useQuery({
    ...membersQuery(organization?.id ?? "", { q }),
    enabled: q !== "" && organization !== undefined && mayAct(user, organization, "ORG_ADMIN"),
  });
  const pages = organization === undefined ? [] : pagesOf(texts, user, organization).filter(isFound);
  const adminPages = user.isSuperAdmin ? adminPagesOf(texts, organization === undefined).filter(isFound) : [];
  const nothing =
    pages.length === 0 &&
    adminPages.length === 0 &&
    (organization === undefined || plants.data?.data.length === 0) &&
    !people.data?.data.length;
  return (
    <Dialog title={labels.title} onClose={onClose}>
      {/* biome-ignore lint/a11y/noStaticElementInteractions: the arrow keys are a short cut; Tab reaches every link */}
      <div className="form" onKeyDown={moveFocus}>
        <input
          aria-label={labels.text}
          placeholder={labels.text}
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
          {/* Until others are found, the query keeps those of the former text: Enter must not open one of them. */}
          {q !== "" &&
            !people.isPlaceholderData &&
            people.data?.data.map(({ id, user: { name, email } }) => (
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
          {adminPages.map(({ to, label }) => (
            <li key={to}>
              <Link to={to} onClick={onClose}>
                {label} <span className="fine">{texts.admin.title}</span>
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
