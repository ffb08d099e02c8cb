import { useTexts } from "../i18n";
import { FrontDoor } from "../ui/front-door";

/** Shown to a user of no organisation. */
export function StartScreen() {
  const texts = useTexts();
  return (
    <FrontDoor title={texts.appName}>
      <p>{texts.login.noOrganization}</p>
    </FrontDoor>
  );
}
