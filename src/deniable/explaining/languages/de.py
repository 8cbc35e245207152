"""The sentences in German."""

from __future__ import annotations

from dataclasses import replace

from deniable.explaining.labels import Labels
from deniable.explaining.texts import Texts
from deniable.units import Relation

_LABELS = Labels(
    guessing="Raten",
    false_positives="falsch Beschuldigte",
    false_negatives="Übersehene",
    odds="Veröffentlichungen, die auf Sie deuten würden",
    odds_without="ohne Sie",
    odds_with="mit Ihnen",
    odds_count="{name}: {many} von {of}",
    odds_alt="Zwei Felder mit 100 Figuren. Ohne Sie sind {without} von {of} dunkel, mit Ihnen {with_you} von {of}.",
    tradeoff="Was ein Test über eine Person erreichen kann",
    tradeoff_alt="Übersehene gegen falsch Beschuldigte; näher an der Linie des Ratens ist besser geschützt.",
    tradeoff_alt_line="{name}: bei 10 % falsch Beschuldigten werden mindestens {missed} % übersehen.",
    profile="Die Kurve des Schutzes",
    profile_alt="δ gegen ε; tiefer ist besser geschützt.",
    profile_alt_line="{name}: ε ist {epsilon} bei δ = {delta}.",
    belief="Von der Vermutung davor zur Vermutung danach",
    belief_before="Vermutung davor",
    belief_after="Vermutung danach",
    belief_most="danach, höchstens",
    belief_almost="danach, höchstens, außer bei {failure} der Ergebnisse",
    belief_same="nichts gelernt",
    belief_alt="Vermutung danach gegen Vermutung davor. Aus 10 % werden höchstens {most} %.",
    comparison="Was k Schritte kosten, jeder {step}",
    comparison_steps="Zahl der Schritte k",
    comparison_cost="ε bei δ = {delta}",
    comparison_estimate="{theorem} (Schätzung)",
    comparison_alt="ε gegen die Zahl der Schritte, eine Linie je Satz.",
    comparison_alt_line="{theorem}: {epsilon} bei k = {count}.",
    loss="Der Verlust an Privatheit und sein normaler Grenzwert",
    loss_axis="Verlust ln P/Q",
    loss_line="Verlust",
    loss_normal="Normalverteilung mit Mittel und Varianz (Schätzung)",
    loss_alt=(
        "Die Dichte des Verlusts mit Mittel {mean} und Standardabweichung {deviation} neben der Normalverteilung."
    ),
    density="Dichte",
    threshold="Ein Test, der nach einer Schwelle entscheidet",
    threshold_axis="was der Test sieht, in Standardabweichungen des Rauschens",
    threshold_without="ohne Sie",
    threshold_with="mit Ihnen",
    threshold_line="Schwelle bei {at}",
    threshold_alt=(
        "Zwei Normalverteilungen im Abstand {mu}. Über der Schwelle {at} sagt der Test, dass Sie dabei"
        " waren: falsch Beschuldigte {positives}, Übersehene {negatives}."
    ),
    promise_response="zufällige Antwort",
    promise_laplace="Laplace-Rauschen",
    promise_gaussian="Gauß-Rauschen",
    promise_sampled="1000 Gauß-Schritte auf einem Hundertstel",
    forms="Was {count} Schritte kosten, jeder {step}",
    forms_alt="ε nach jedem Satz.",
    accuracy="Genauigkeit gegen Privatheit",
    accuracy_axis="Fehler, höchstens",
    accuracy_line="{many} Personen",
    accuracy_alt="Der versprochene Fehler gegen ε, eine Linie je Zahl der Personen.",
    accuracy_alt_line="{many} Personen: {error} bei ε = {epsilon}.",
    charges="Buchungen im Lauf der Zeit",
    charges_day="Buchungen am Tag (UTC)",
    charges_alt="Buchungen je Tag.",
    charges_alt_bar="{day}: {many}.",
    values_intervals="mit Intervallen von {confidence} %",
    values_first="{name} (die ersten {shown} von {all})",
    values_alt_row="{name}: {value}, von {low} bis {high}.",
    audit="Eine Prüfung: {verdict}",
    verdicts={"refuted": "widerlegt", "consistent": "nicht widerlegt"},
    audit_claimed="behauptet",
    audit_measured="gemessen, mindestens",
    audit_alt="ε bei mehreren δ.",
    audit_alt_point="Bei δ = {delta}: behauptet {claimed}, gemessen mindestens {lower}.",
    audit_alt_verdict="Ergebnis: {verdict}.",
    audit_finding="geprüft: ε ≥ {lower} bei δ = {delta}",
    audit_above="behauptet: jeder Test liegt auf oder über",
    audit_below="{finding}: ein Test liegt auf oder unter",
    audit_tradeoff_alt=(
        "Übersehene gegen falsch Beschuldigte bei Tests über eine Person. Bei δ = {delta} wird ε ≤ {claimed} behauptet;"
        " {finding}."
    ),
)

_SINGLE = Texts(
    language="de",
    units={
        "": "eine Person",
        "row": "eine Zeile",
        "record": "ein Datensatz",
        "group": "eine Gruppe von {members} Personen",
    },
    changes={
        Relation.ADD_REMOVE: "{unit} mehr oder weniger",
        Relation.REPLACE: "{unit} gegen eine andere getauscht",
        Relation.ZERO_OUT: "{unit} unkenntlich gemacht",
    },
    statistics={
        "count": "Anzahlen",
        "sum": "Summen",
        "average": "Durchschnitte",
        "quantile": "Quantile",
        "spread": "Streuungsmaße",
    },
    one_in="eins von {many}",
    someone="jemanden, der alles andere weiß",
    belief={
        Relation.ADD_REMOVE: "dass Sie teilgenommen haben",
        Relation.REPLACE: "dass Ihre Antwort die vermutete ist",
        Relation.ZERO_OUT: "dass Ihre Daten verwendet wurden",
    },
    odds={
        Relation.ADD_REMOVE: (
            "Wenn Sie nicht teilnehmen, würden {without} von {of} möglichen Veröffentlichungen"
            " {observer} glauben lassen,"
            " {belief}; wenn Sie teilnehmen, {with_you} von {of}."
        ),
        Relation.REPLACE: (
            "Wenn es nicht so ist, würden {without} von {of} möglichen Veröffentlichungen {observer} glauben lassen,"
            " {belief}; wenn es so ist, {with_you} von {of}."
        ),
        Relation.ZERO_OUT: (
            "Wenn Ihre Daten leer bleiben, würden {without} von {of} möglichen Veröffentlichungen {observer} glauben"
            " lassen, {belief}; wenn nicht, {with_you} von {of}."
        ),
    },
    odds_rest="Eine solche Veröffentlichung verstärkt die Vermutung, die anderen schwächen sie oder lassen sie stehen.",
    odds_about="Jede der beiden Zahlen kann um {give_or_take} danebenliegen.",
    odds_own="Diese Zahlen gehören zu dem Rauschen, das wirklich hinzugefügt wird.",
    odds_any=(
        "Es sind die Zahlen des schlechtesten Verfahrens, das die Zusage hält. Das verwendete kann andere haben; bei"
        " keinem liegen die beiden Zahlen weiter auseinander."
    ),
    odds_most="Vor dem Runden: höchstens {most} von 100 Vermutungen sind richtig, mit einer Münze 50.",
    prior=(
        "Wer sich vorher zu {prior} % sicher war über {unit}, ist es danach zu mindestens {least} % und höchstens"
        " {most} %, was auch veröffentlicht wird."
    ),
    prior_almost=(
        "Wer sich vorher zu {prior} % sicher war über {unit}, ist es danach höchstens zu {most} %, außer bei höchstens"
        " {failure} der möglichen Veröffentlichungen."
    ),
    prior_falls="Die Vermutung kann auch fallen, auf mindestens {least} %, mit ebenso vielen Ausnahmen.",
    no_bound=(
        "Für jede einzelne Veröffentlichung lässt sich keine Grenze unter 100 % zusagen; für alle bis auf wenige schon."
    ),
    unit_row="Jede Zeile ist für sich geschützt. Eine Person mit vielen Zeilen ist weniger geschützt.",
    unit_person="Die Zusage gilt für alles, was {unit} beiträgt, alle Zeilen zusammen.",
    relation={
        Relation.ADD_REMOVE: "Verglichen werden die Daten mit denselben Daten, in denen {unit} fehlt; auch wie viele es"
        " sind, ist geschützt.",
        Relation.REPLACE: "Verglichen werden die Daten mit denselben Daten, in denen {unit} durch"
        " andere Angaben ersetzt"
        " ist; wie viele es sind, ist öffentlich.",
        Relation.ZERO_OUT: "Verglichen werden die Daten mit denselben Daten, in denen {unit} leer"
        " ist; wie viele es sind,"
        " ist öffentlich.",
    },
    delta_zero="δ = 0: Die Zusage gilt für jedes einzelne Ergebnis.",
    delta=(
        "δ = {delta} ist nicht die Wahrscheinlichkeit eines Lecks. Es sagt, wie weit ein Test die Grenze von ε"
        " überschreiten kann. Als Wahrscheinlichkeit gelesen: Mit mindestens {kept} wachsen die Chancen eines"
        " Angreifers ({unit}) höchstens auf das {factor}-Fache."
    ),
    refuted="Eine Prüfung hat diese Zusage widerlegt. Was folgt, ist die Behauptung, und sie gilt nicht.",
    covers_budget="Sie gilt für alles zusammen, was unter dieser Zusage veröffentlicht wird, und für nichts sonst.",
    covers_this="Sie gilt für dieses eine. Was sonst über dieselben Personen veröffentlicht wird, kommt dazu.",
    not_population=(
        "Was für Menschen im Allgemeinen gilt, wird nicht verborgen. Eine Studie kann zeigen, dass Rauchen schadet, und"
        " das sagt etwas über alle, die rauchen, ob sie teilgenommen haben oder nicht."
    ),
    not_told="Was jemand erzählt, veröffentlicht oder anderen außerhalb dieser Daten überlässt, ist nicht geschützt.",
    not_true="Ob die veröffentlichten Zahlen stimmen, sagt die Zusage nicht. Das sagen die Intervalle daneben.",
    advantage=(
        "Kein Test unterscheidet die beiden Fälle mit einem Vorteil (richtig minus falsch Beschuldigte) über"
        " {advantage}."
    ),
    caught="Ein Test, der {false} der Unbeteiligten beschuldigt, findet höchstens {true} der Beteiligten.",
    method="ε und δ sind die bewiesene obere Grenze der Berechnung: {method}.",
    heading_refuted="Widerlegt",
    heading_promise="Was zugesagt wird",
    heading_you="Was das für Sie bedeutet",
    heading_numbers="In Zahlen",
    heading_delta="Was δ bedeutet",
    heading_not="Was nicht zugesagt wird",
    heading_scope="Wer wogegen geschützt ist",
    heading_facts="Angaben",
    page_title="Wie {unit} in dem geschützt ist, was veröffentlicht wird",
    page_intro=(
        "Was hier veröffentlicht wird, wurde mit zufälligem Rauschen berechnet. Es begrenzt, was sich daraus über"
        " Einzelne ({unit}) lernen lässt. Diese Seite sagt, wie viel, für wen, und was sonst zu wissen ist."
    ),
    page_refuted="Widerlegt: {promise}",
    page_released="Die veröffentlichten Zahlen",
    page_releases="Was veröffentlicht wurde",
    page_release="{day}: {what}",
    page_statistics="{statistics} aus einer Tabelle",
    page_and="{first} und {last}",
    page_question="die Frage",
    page_redacted="die Frage, ohne Namen und Werte",
    page_technical="Technische Einzelheiten",
    page_facts="Angaben",
    page_datasheet="Datenblatt: Fragen nach NIST SP 800-226",
    page_attacker="Was ein Angreifer höchstens erreicht",
    page_promise="diese Zusage",
    page_done="was getan wurde",
    page_charged="Was wofür gebucht wurde",
    page_each=(
        "Jede Zeile sagt, was eine Buchung für sich allein kosten würde. Das Budget oben deckt alle"
        " zusammen; die Zeilen"
        " ergeben es nicht als Summe und müssen es nicht."
    ),
    page_earlier="Die ersten {less} Buchungen fehlen hier; das Hauptbuch hat sie.",
    page_columns=("Zeit (UTC)", "wer", "Zweck", "Vorgang", "für sich allein", "berechnet durch"),
    page_audits="Prüfungen",
    page_claimed="behauptet: {promise}",
    page_edges="Worauf zu achten ist",
    page_curator="verantwortlich",
    page_use="Verwendung",
    page_footer="Geschrieben von deniable {version} am {when}. Kein Wert auf dieser Seite ist vertraulich.",
    edge_row="Geschützt ist eine Zeile. Eine Person mit vielen Zeilen ist weniger geschützt, Zeile für Zeile.",
    edge_claimed="Ein Teil ist als Zusage gebucht, nicht als gezogenes Rauschen; er beruht auf dem, der sie gab.",
    edge_sampled="Die Stichprobe zählt als Schutz. Welche Datensätze gezogen wurden, muss geheim bleiben.",
    edge_shuffled="Das Mischen zählt als Schutz. Wer mischt, darf nicht sagen, von wem welche Meldung kam.",
    edge_floats=(
        "Stetiges Rauschen wird mit Gleitkommazahlen berechnet. Das angegebene Gesetz ist das der reellen Zahlen."
    ),
    edge_local=(
        "Zufällige Antworten schützen auch vor denen, die sie sammeln, solange die Wahrheit die Person nie verlässt."
    ),
    edge_size="Wie viele Personen es sind, gilt als öffentlich.",
    sheet={
        "parameters": ("Welche Zusage, mit welchen Größen?", "{promise}."),
        "unit": ("Wen schützt sie: Was ist eine Einheit?", "{scope}"),
        "neighbours": ("Was bleibt verborgen: Welche Daten sind benachbart?", "{neighbours}"),
        "meaning": (
            "Was bedeutet das für eine Person?",
            "Wer es für gleich wahrscheinlich hält, ob {unit} dabei ist, rät höchstens {most} von 100 Mal richtig.",
        ),
        "composition": ("Gilt sie für alles, was aus diesen Daten veröffentlicht wird?", "{covers}"),
        "releases": ("Wie viele Veröffentlichungen bisher?", "{releases}, jede vor ihrer Berechnung gebucht."),
        "algorithms": ("Welche Verfahren wurden verwendet?", "{mechanisms}"),
        "sensitivity": (
            "Wie ist der Einfluss einer Einheit begrenzt?",
            "Durch Grenzen, die nicht von den Daten abhängen: wie viel von einer Einheit zählt, und Bereiche der Werte."
            " Was darüber liegt, wird weggelassen oder begrenzt; das Rauschen deckt den Rest.",
        ),
        "numbers": (
            "Stimmen Rauschen und Rechnung auf dem Rechner?",
            "Antworten sind exakte ganze Zahlen mit exaktem diskretem Rauschen; der Zufall kommt aus"
            " der sicheren Quelle"
            " des Betriebssystems. {floats}",
        ),
        "channels": (
            "Was verraten Zeit, Fehlermeldungen, Dateien?",
            "Ablehnungen und Meldungen hängen nicht von den Daten ab. Wie lange eine Antwort dauert, deckt die Zusage"
            " nicht.",
        ),
        "utility": (
            "Wie genau sind die Ergebnisse, und woher weiß man das?",
            "Jede Zahl hat ein Intervall, berechnet aus dem Rauschen und aus nichts Vertraulichem.",
        ),
        "bias": (
            "Können die Ergebnisse verzerrt sein?",
            "Grenzen und Bereiche schneiden ab, was darüber liegt; jede Veröffentlichung sagt, was ihre Intervalle"
            " decken.",
        ),
        "trust": (
            "Wem muss man trauen: zentrales oder lokales Modell?",
            "Dem zentralen: Wer die Daten verwaltet, sieht sie ({curator}).{local}",
        ),
        "access": (
            "Wer kommt an die Daten und das Hauptbuch?",
            "Wer die Dateien lesen kann. Der Zugang ist Sache der Verantwortlichen und hier nicht verzeichnet.",
        ),
        "collection": ("Wie wurden die Daten erhoben?", "Hier nicht verzeichnet; fragen Sie nach ({curator})."),
        "audits": ("Wurde die Behauptung geprüft?", "{audits}"),
        "software": ("Mit welcher Software?", "deniable {version}. {method}."),
    },
    sheet_none="Hier ist nichts verzeichnet.",
    sheet_tested="Prüfungen auf dieser Seite: {many}, davon widerlegt: {refuted}.",
    labels=_LABELS,
    groups=None,
)

_GROUPS = replace(
    _SINGLE,
    belief={
        Relation.ADD_REMOVE: "dass Ihre Gruppe teilgenommen hat",
        Relation.REPLACE: "dass die Antworten Ihrer Gruppe die vermuteten sind",
        Relation.ZERO_OUT: "dass die Daten Ihrer Gruppe verwendet wurden",
    },
    odds={
        Relation.ADD_REMOVE: (
            "Wenn niemand aus Ihrer Gruppe teilnimmt, würden {without} von {of} möglichen Veröffentlichungen {observer}"
            " glauben lassen, {belief}; wenn alle teilnehmen, {with_you} von {of}."
        ),
        Relation.REPLACE: _SINGLE.odds[Relation.REPLACE],
        Relation.ZERO_OUT: (
            "Wenn die Daten Ihrer Gruppe leer bleiben, würden {without} von {of} möglichen"
            " Veröffentlichungen {observer}"
            " glauben lassen, {belief}; wenn nicht, {with_you} von {of}."
        ),
    },
    unit_row="Die Zeilen der Gruppe ({unit}) sind zusammen geschützt. Eine Person mit mehr Zeilen ist es weniger.",
    unit_person="Die Zusage gilt für alles, was {unit} beiträgt, alle Zeilen zusammen, und für jede kleinere Gruppe.",
    heading_you="Was das für Sie und Ihre Gruppe bedeutet",
    edge_row="Geschützt ist eine Gruppe von Zeilen. Eine Person mit mehr Zeilen ist weniger geschützt.",
    labels=replace(
        _LABELS,
        odds="Veröffentlichungen, die auf Ihre Gruppe deuten würden",
        odds_without="ohne Ihre Gruppe",
        odds_with="mit Ihrer Gruppe",
        tradeoff="Was ein Test über eine Gruppe erreichen kann",
    ),
)

TEXTS = replace(_SINGLE, groups=_GROUPS)
